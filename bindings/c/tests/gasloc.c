/* GASLoC's worker and recorder over the C interface: what ranks make, over threads and over callbacks, is a
 * trace that is EXACT; errors are reported. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "letters.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

enum { ROUNDS = 5 };

/* The same edges in two orders; rank 1 has the second, and workers with other edges would not begin. */
static const char* const explicit_edges[] = {"law=explicit edges=1:0:2:0.5,2:0:1:1,2:1:2:0.25 alpha=0.5",
                                             "law=explicit edges=2:1:2:0.25,1:2:0:0.5,2:0:1:1 alpha=0.5"};

typedef struct gasloc_run {
    const char* settings;
    int32_t ranks;
    const char* folder;
    truestep_group* group; /* or the office */
    post_office* office;
    int32_t wrong_round; /* of rank 1 a value is changed after it was recorded; 0: none */
    truestep_gasloc_recorder* recorder;
    pthread_mutex_t mutex; /* of the recorder */
} gasloc_run;

/* Workers take different numbers of steps, and sometimes none. */
static int32_t inner_steps(int32_t rank, int32_t round) {
    return (rank + round) % 3;
}

static truestep_gasloc_problem* make_gasloc_problem(int32_t workers, const char* text) {
    truestep_gasloc_problem* problem = NULL;
    CHECK_OK(truestep_gasloc_problem_create(model, TENSORS, workers, text, &problem));
    return problem;
}

static truestep_peers* join_peers(gasloc_run* shared, counter* mine) {
    truestep_peers* peers = NULL;
    if (shared->group != NULL) {
        CHECK_OK(truestep_group_peers(shared->group, mine->rank, &peers));
    } else {
        const truestep_messages messages = messages_of(mine, shared->ranks);
        CHECK_OK(truestep_peers_create(&messages, &peers));
    }
    return peers;
}

static void record_vector(gasloc_run* shared, const char* name, int32_t rank, truestep_values values) {
    if (values.count == 0)
        return;
    pthread_mutex_lock(&shared->mutex);
    CHECK_OK(truestep_gasloc_recorder_add(shared->recorder, name, rank, &values, 1));
    pthread_mutex_unlock(&shared->mutex);
}

/* Rank 0 begins the round in the recorder, which the others wait for. */
static pthread_barrier_t round_begins;

static void take_steps(gasloc_run* shared, truestep_gasloc_worker* worker, int32_t rank, int32_t round) {
    for (int32_t h = 1; h <= inner_steps(rank, round); ++h) {
        float gradient[SIZE];
        char name[32];
        snprintf(name, sizeof name, "gradient.%d", (int)h);
        make_gradient(gradient, rank, 10 * round + h);
        record_vector(shared, name, rank, floats(gradient, SIZE));
        if (round == shared->wrong_round && rank == 1)
            gradient[50] += 0.5F;
        const truestep_values pieces[2] = {floats(gradient, 40), floats(gradient + 40, 60)};
        int32_t counted = 0;
        CHECK_OK(truestep_gasloc_worker_step(worker, pieces, 2, 0.01 * h, &counted));
        CHECK(counted == 1);
    }
}

static void run_rounds(int32_t rank, void* given) {
    gasloc_run* shared = given;
    counter mine = {shared->office, rank, 0};
    truestep_peers* peers = join_peers(shared, &mine);
    truestep_gasloc_problem* problem = make_gasloc_problem(
        shared->ranks,
        rank == 1 && shared->settings == explicit_edges[0] ? explicit_edges[1] : shared->settings);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_gasloc_worker* worker = NULL;
    CHECK_OK(truestep_gasloc_worker_create(problem, peers, &whole, 1, &worker));
    truestep_peers_destroy(peers); /* the worker keeps what it needs */
    truestep_gasloc_problem_destroy(problem);
    for (int32_t round = 1; round <= ROUNDS && worker != NULL; ++round) {
        int32_t most = 0;
        for (int32_t other = 0; other < shared->ranks; ++other)
            most = inner_steps(other, round) > most ? inner_steps(other, round) : most;
        const double rates[2] = {0.01, 0.02};
        pthread_barrier_wait(&round_begins);
        if (rank == 0)
            CHECK_OK(truestep_gasloc_recorder_begin_round(shared->recorder, rates, (size_t)most));
        pthread_barrier_wait(&round_begins);
        take_steps(shared, worker, rank, round);
        truestep_values now;
        CHECK_OK(truestep_gasloc_worker_parameters(worker, &now));
        record_vector(shared, "inner", rank, now);
        truestep_gasloc_round went = {.struct_size = 3}; /* what is refused makes no round */
        CHECK_FAILS(truestep_gasloc_worker_round(worker, &went), TRUESTEP_ERROR, "struct_size is 3");
        went.struct_size = sizeof went;
        CHECK_OK(truestep_gasloc_worker_round(worker, &went));
        CHECK(went.number == round && went.inner_steps == inner_steps(rank, round) && went.skipped == 0);
        CHECK(went.sent == (uint64_t)went.neighbours * 4U * SIZE && mine.under_way == 0);
        CHECK(truestep_gasloc_worker_rounds(worker) == round);
        truestep_gasloc_state state = {.struct_size = sizeof state};
        CHECK_OK(truestep_gasloc_worker_state(worker, &state));
        CHECK(state.rounds == round);
        record_vector(shared, "first_moment", rank, state.first_moment);
        record_vector(shared, "second_moment", rank, state.second_moment);
        record_vector(shared, strstr(shared->settings, "gossiped") != NULL ? "gossiped" : "drifted", rank,
                      state.before);
        record_vector(shared, "parameters", rank, state.parameters);
        if (round == 2) /* as if it had ended: from its own file, and from what was looked at */
            CHECK_OK(truestep_gasloc_worker_save(worker, shared->folder));
        if (round == 3)
            CHECK_OK(truestep_gasloc_worker_restore(worker, &state));
    }
    truestep_gasloc_worker_destroy(worker);
    CHECK(mine.under_way == 0);
}

static void trace_is(gasloc_run* shared, int passed, const char* text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/gasloc.safetensors", shared->folder);
    truestep_gasloc_problem* problem = make_gasloc_problem(shared->ranks, shared->settings);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    CHECK_OK(truestep_gasloc_recorder_create(problem, "abi_test", &whole, 1, &shared->recorder));
    truestep_gasloc_problem_destroy(problem);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_barrier_init(&round_begins, NULL, (unsigned)shared->ranks);
    run_ranks(shared->ranks, run_rounds, shared);
    pthread_barrier_destroy(&round_begins);
    pthread_mutex_destroy(&shared->mutex);
    CHECK_OK(truestep_gasloc_recorder_write(shared->recorder, path));
    truestep_gasloc_recorder_destroy(shared->recorder);
    truestep_verdict* verdict = NULL;
    CHECK_OK(truestep_verify(path, "exact", NULL, &verdict));
    if (truestep_verdict_passed(verdict) != passed ||
        strstr(truestep_verdict_text(verdict), text) == NULL) {
        fprintf(stderr, "%s, %d ranks: no '%s' in\n%s", shared->settings, (int)shared->ranks, text,
                truestep_verdict_text(verdict));
        check_failed(__FILE__, __LINE__, "the verdict");
    }
    truestep_verdict_destroy(verdict);
}

static void over_both(const char* text, int32_t ranks, const char* folder, int32_t wrong_round,
                      const char* verdict) {
    gasloc_run shared = {.settings = text, .ranks = ranks, .folder = folder, .wrong_round = wrong_round};
    CHECK_OK(truestep_group_create(ranks, 60000, &shared.group));
    trace_is(&shared, wrong_round == 0, verdict);
    truestep_group_destroy(shared.group);
    shared.group = NULL;
    shared.office = open_office();
    trace_is(&shared, wrong_round == 0, verdict);
    close_office(shared.office);
}

/* One worker: a loaded checkpoint continues as the saved worker did, and a gradient with NaN skips a round.
 */
static void a_worker_goes_on(const char* folder) {
    truestep_gasloc_problem* problem = make_gasloc_problem(1, "");
    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    truestep_gasloc_worker* first = NULL;
    truestep_gasloc_worker* second = NULL;
    CHECK_OK(truestep_gasloc_worker_create(problem, NULL, &whole, 1, &first));
    CHECK_OK(truestep_gasloc_worker_create(problem, NULL, &whole, 1, &second));
    for (int32_t round = 1; round <= 4; ++round) {
        truestep_gasloc_worker* both[2] = {first, second};
        for (int i = 0; i < (round <= 2 ? 1 : 2); ++i) {
            int32_t counted = 1;
            truestep_gasloc_round went = {.struct_size = sizeof went};
            make_gradient(values, 0, round);
            CHECK_OK(truestep_gasloc_worker_step(both[i], &whole, 1, 0.01, NULL));
            if (round == 4)
                values[3] = (float)strtod("nan", NULL);
            CHECK_OK(truestep_gasloc_worker_step(both[i], &whole, 1, 0.01, &counted));
            CHECK_OK(truestep_gasloc_worker_round(both[i], &went));
            CHECK(counted == (round != 4) && went.skipped == (round == 4));
            CHECK(went.inner_steps == (round == 4 ? 0 : 2));
        }
        if (round == 2) {
            char path[4200];
            CHECK_OK(truestep_gasloc_worker_save(first, folder));
            snprintf(path, sizeof path, "%s/round-0000000002", folder);
            CHECK_OK(truestep_gasloc_worker_load(second, path));
        }
        if (round >= 2) {
            truestep_values a;
            truestep_values b;
            CHECK_OK(truestep_gasloc_worker_parameters(first, &a));
            CHECK_OK(truestep_gasloc_worker_parameters(second, &b));
            CHECK(same(a, b));
        }
    }
    truestep_gasloc_state state = {.struct_size = sizeof state};
    CHECK_OK(truestep_gasloc_worker_state(first, &state));
    state.inner_steps = -1;
    CHECK_FAILS(truestep_gasloc_worker_restore(second, &state), TRUESTEP_ERROR, "-1 inner steps");
    state.inner_steps = 1;
    state.second_moment.count = 0;
    CHECK_FAILS(truestep_gasloc_worker_restore(second, &state), TRUESTEP_ERROR, "restore: second_moment");
    CHECK_FAILS(truestep_gasloc_worker_load(second, "/there/is/none"), TRUESTEP_ERROR, "/there/is/none");
    make_gradient(values, 0, 1);
    CHECK_OK(truestep_gasloc_worker_step(first, &whole, 1, 0.01, NULL));
    CHECK_FAILS(truestep_gasloc_worker_state(first, &state), TRUESTEP_ERROR, "between two rounds");
    for (int i = 0; i < SIZE; ++i)
        values[i] = 3e38F;
    CHECK_OK(truestep_gasloc_worker_step(first, &whole, 1, 1e39, NULL));
    CHECK_FAILS(truestep_gasloc_worker_round(first, NULL), TRUESTEP_HALTED, "not finite");
    state.struct_size = sizeof state;
    CHECK_FAILS(truestep_gasloc_worker_round(first, NULL), TRUESTEP_HALTED, "halted");
    CHECK_FAILS(truestep_gasloc_worker_load(first, folder), TRUESTEP_ERROR,
                "make another, over other peers");
    truestep_gasloc_worker_destroy(first);
    truestep_gasloc_worker_destroy(second);
    truestep_gasloc_problem_destroy(problem);
}

static void run_striking(int32_t rank, void* given) {
    gasloc_run* shared = given;
    counter mine = {shared->office, rank, 0};
    truestep_peers* peers = join_peers(shared, &mine);
    truestep_gasloc_problem* problem = make_gasloc_problem(shared->ranks, shared->settings);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_gasloc_worker* worker = NULL;
    CHECK_FAILS(truestep_gasloc_worker_create(problem, peers, &whole, 1, &worker), TRUESTEP_ABORTED,
                "the post is on strike");
    CHECK(worker == NULL && mine.under_way <= 1);
    truestep_peers_destroy(peers);
    CHECK(mine.under_way == 0);
    truestep_gasloc_problem_destroy(problem);
}

static void bad_gasloc_input_is_told(void) {
    truestep_gasloc_problem* problem = NULL;
    static const struct {
        const char* settings;
        const char* told;
    } wrong[] = {{"density=0.1", "'density=0.1' is not a setting"},
                 {"law=star", "star"},
                 {"gamma=0.9", "gamma"},
                 {"alpha=some", "alpha is 'some'"},
                 {"law=explicit", "there are no edges"},
                 {"edges=1:0:1:1", "edges are for law=explicit"},
                 {"law=explicit edges=1:0:1", "ROUND:A:B:WEIGHT"},
                 {"law=explicit edges=1:0:0:1", "edges of round 1"},
                 {"allow_unstable=1", "give yes or no"},
                 {"threads=0", "threads is 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        CHECK_FAILS(truestep_gasloc_problem_create(model, TENSORS, 8, wrong[i].settings, &problem),
                    TRUESTEP_ERROR, wrong[i].told);
    CHECK(problem == NULL);
    problem = make_gasloc_problem(2, "");
    CHECK(truestep_gasloc_problem_size(problem) == SIZE);
    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    truestep_gasloc_worker* worker = NULL;
    CHECK_FAILS(truestep_gasloc_worker_create(problem, NULL, &whole, 1, &worker), TRUESTEP_ERROR,
                "2 workers");
    counter mine = {NULL, 2, 0};
    truestep_messages messages = messages_of(&mine, 2);
    truestep_peers* peers = NULL;
    CHECK_FAILS(truestep_peers_create(&messages, &peers), TRUESTEP_ERROR, "rank is 2 of 2");
    messages.rank = 0;
    messages.wait = NULL;
    CHECK_FAILS(truestep_peers_create(&messages, &peers), TRUESTEP_ERROR, "give all three");

    truestep_gasloc_recorder* recorder = NULL;
    const double rate = 0.01;
    CHECK_OK(truestep_gasloc_recorder_create(problem, "abi_test", &whole, 1, &recorder));
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "gradient.1", 0, &whole, 1), TRUESTEP_ERROR,
                "no round has begun");
    CHECK_FAILS(truestep_gasloc_recorder_write(recorder, "/nowhere"), TRUESTEP_ERROR,
                "no round has been recorded");
    CHECK_OK(truestep_gasloc_recorder_begin_round(recorder, &rate, 1));
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "gradient.2", 0, &whole, 1), TRUESTEP_ERROR,
                "the next one of this rank is gradient.1");
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "gradient.x", 0, &whole, 1), TRUESTEP_ERROR, "'x'");
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "residual", 0, &whole, 1), TRUESTEP_ERROR,
                "'residual' is not a result");
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "parameters", 2, &whole, 1), TRUESTEP_ERROR,
                "ranks are 0 to 1");
    CHECK_FAILS(truestep_gasloc_recorder_write(recorder, "/nowhere"), TRUESTEP_ERROR,
                "has 1 learning rates");
    CHECK_OK(truestep_gasloc_recorder_add(recorder, "gradient.1", 1, &whole, 1));
    CHECK_FAILS(truestep_gasloc_recorder_write(recorder, "/nowhere"), TRUESTEP_ERROR, "no result");
    CHECK_OK(truestep_gasloc_recorder_add(recorder, "parameters", 0, &whole, 1));
    CHECK_FAILS(truestep_gasloc_recorder_add(recorder, "parameters", 0, &whole, 1), TRUESTEP_ERROR,
                "given twice");
    CHECK_FAILS(truestep_gasloc_recorder_write(recorder, "/nowhere"), TRUESTEP_ERROR,
                "parameters of 1 ranks");
    truestep_gasloc_recorder_destroy(recorder);
    truestep_gasloc_problem_destroy(problem);
    truestep_gasloc_worker_destroy(NULL);
    truestep_peers_destroy(NULL);
}

void gasloc_is_right(const char* folder) {
    over_both("", 3, folder, 0, "PASSED");
    over_both("law=ring inner=adams momentum=gossiped gamma=0.25 alpha=0.5 bias_correction=momentum", 4,
              folder, 0, "PASSED");
    over_both("law=complete inner=sgd threads=2 eta=0.7", 2, folder, 0, "PASSED");
    over_both(explicit_edges[0], 3, folder, 0, "PASSED");
    over_both("law=none", 1, folder, 0, "PASSED");
    over_both("law=ring", 3, folder, 4, "first divergence: round 4, phase inner");
    char alone[4150]; // of its own: a load refuses a round that runs of other worker counts have saved
    snprintf(alone, sizeof alone, "%s/alone", folder);
    a_worker_goes_on(alone);
    gasloc_run striking = {.settings = "", .ranks = 2, .folder = folder, .office = open_office()};
    striking.office->fails = 1;
    run_ranks(2, run_striking, &striking);
    close_office(striking.office);
    bad_gasloc_input_is_told();
}

/* The C interface, from C: every function, beside the reference, and what it says of what is wrong. */
#include "support.h"

#include <stdlib.h>

/* Steps ranks and reference side by side; every view is the same in every bit. */
typedef struct lockstep {
    const char* settings;
    int32_t ranks;
    truestep_group* group;
    exchange_room* room;
} lockstep;

static truestep_communicator* join(const lockstep* shared, int32_t rank, void* place) {
    truestep_communicator* communicator = NULL;
    if (shared->group != NULL) {
        CHECK_OK(truestep_group_communicator(shared->group, rank, &communicator));
    } else {
        const truestep_exchanges exchanges = exchanges_of(shared->room, rank, place);
        CHECK_OK(truestep_communicator_create(&exchanges, &communicator));
    }
    return communicator;
}

static void run_lockstep(int32_t rank, void* given) {
    const lockstep* shared = given;
    void* place = malloc(exchange_place_size());
    truestep_problem* problem = make_problem(shared->ranks, shared->settings);
    truestep_communicator* communicator = join(shared, rank, place);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_optimizer* optimizer = NULL;
    truestep_reference* reference = NULL;
    CHECK_OK(truestep_optimizer_create(problem, communicator, &whole, 1, &optimizer));
    CHECK_OK(truestep_reference_create(problem, &whole, 1, &reference));
    truestep_communicator_destroy(communicator); /* the optimizer keeps what it needs */
    truestep_problem_destroy(problem);

    for (int32_t step = 1; step <= STEPS && optimizer != NULL && reference != NULL; ++step) {
        float gradient[SIZE];
        make_gradient(gradient, rank, step);
        /* In pieces, as tensors come. */
        const truestep_values pieces[3] = {floats(gradient, 40), floats(gradient + 40, 5),
                                           floats(gradient + 45, 55)};
        CHECK_OK(truestep_optimizer_step(optimizer, pieces, 3, 0.01));
        CHECK_OK(truestep_optimizer_progress(optimizer));
        CHECK(truestep_optimizer_steps(optimizer) == step);
        reference_step(reference, shared->ranks, step);
        check_views(optimizer, reference, rank);
        truestep_statistics statistics = {.struct_size = sizeof statistics};
        CHECK_OK(truestep_optimizer_statistics(optimizer, &statistics));
        CHECK(statistics.step == step && statistics.selected >= 5 && statistics.clip_factor <= 1.0);
        CHECK(shared->ranks == 1 || statistics.sent[1] > 0);
        truestep_statistics earlier = {.struct_size = offsetof(truestep_statistics, exponent),
                                       .exponent = 7};
        CHECK_OK(truestep_optimizer_statistics(optimizer, &earlier));
        CHECK(earlier.step == step && earlier.exponent == 7);
    }
    truestep_optimizer_destroy(optimizer);
    truestep_reference_destroy(reference);
    free(place);
}

static void ranks_are_right(const char* text) {
    for (int32_t ranks = 1; ranks <= 4; ++ranks) {
        lockstep shared = {text, ranks, NULL, NULL};
        CHECK_OK(truestep_group_create(ranks, 60000, &shared.group));
        run_ranks(ranks, run_lockstep, &shared);
        truestep_group_destroy(shared.group);
        shared.group = NULL;
        shared.room = exchange_room_make(ranks);
        run_ranks(ranks, run_lockstep, &shared);
        exchange_room_free(shared.room);
    }
}

static truestep_optimizer* alone(const char* text) {
    truestep_problem* problem = make_problem(1, text);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_optimizer* optimizer = NULL;
    CHECK_OK(truestep_optimizer_create(problem, NULL, &whole, 1, &optimizer));
    truestep_problem_destroy(problem);
    return optimizer;
}

static void step_alone(truestep_optimizer* optimizer, int32_t step) {
    float gradient[SIZE];
    make_gradient(gradient, 0, step);
    const truestep_values whole = floats(gradient, SIZE);
    CHECK_OK(truestep_optimizer_step(optimizer, &whole, 1, 0.01));
}

static void check_same(truestep_optimizer* a, truestep_optimizer* b) {
    CHECK(truestep_optimizer_steps(a) == truestep_optimizer_steps(b));
    for (int32_t what = TRUESTEP_PARAMETERS; what <= TRUESTEP_NEXT_MASK; ++what) {
        truestep_values of_a;
        truestep_values of_b;
        CHECK_OK(truestep_optimizer_view(a, what, &of_a));
        CHECK_OK(truestep_optimizer_view(b, what, &of_b));
        CHECK(same(of_a, of_b));
    }
}

/* A state restored in another optimizer, which then continues as the first does. */
static void a_state_goes_on(const char* given, const char* folder) {
    truestep_optimizer* first = alone(given);
    truestep_optimizer* second = alone(given);
    truestep_optimizer* third = alone(given);
    for (int32_t step = 1; step <= 3; ++step)
        step_alone(first, step);
    truestep_state state = state_of(first);
    CHECK((state.exponent == -126) == (strstr(given, "e5m2") == NULL));
    CHECK_OK(truestep_optimizer_restore(second, &state));
    char path[4096];
    CHECK_OK(truestep_optimizer_save(first, folder));
    snprintf(path, sizeof path, "%s/step-0000000003", folder);
    CHECK_OK(truestep_optimizer_load(third, path));
    check_same(first, second);
    check_same(first, third);
    for (int32_t step = 4; step <= 6; ++step) {
        step_alone(first, step);
        step_alone(second, step);
        step_alone(third, step);
        check_same(first, second);
        check_same(first, third);
    }
    state.step = -1;
    CHECK_FAILS(truestep_optimizer_restore(second, &state), TRUESTEP_ERROR, "step is -1");
    state.struct_size = 8;
    CHECK_FAILS(truestep_optimizer_restore(second, &state), TRUESTEP_ERROR, "struct_size is 8");
    CHECK_FAILS(truestep_optimizer_load(third, "/there/is/none"), TRUESTEP_ERROR, "/there/is/none");
    check_same(first, second);
    truestep_optimizer_destroy(first);
    truestep_optimizer_destroy(second);
    truestep_optimizer_destroy(third);
}

/* bf16 is the fp32 that it stands for; a piece without data is zeros of either type. */
static void bf16_is_what_it_stands_for(void) {
    truestep_optimizer* wide = alone(settings);
    truestep_optimizer* narrow = alone(settings);
    for (int32_t step = 1; step <= 3; ++step) {
        float gradient[SIZE];
        uint16_t halves[SIZE];
        make_gradient(gradient, 0, step);
        for (int i = 0; i < SIZE; ++i) {
            uint32_t bits;
            memcpy(&bits, &gradient[i], sizeof bits);
            halves[i] = (uint16_t)(bits >> 16U);
            bits &= 0xFFFF0000U;
            memcpy(&gradient[i], &bits, sizeof bits);
            if (i < 40)
                gradient[i] = 0.0F;
        }
        const truestep_values whole = floats(gradient, SIZE);
        const truestep_values pieces[3] = {
            {NULL, 20, TRUESTEP_F32}, {NULL, 20, TRUESTEP_BF16}, {halves + 40, 60, TRUESTEP_BF16}};
        CHECK_OK(truestep_optimizer_step(wide, &whole, 1, 0.01));
        CHECK_OK(truestep_optimizer_step(narrow, pieces, 3, 0.01));
        check_same(wide, narrow);
    }
    truestep_optimizer_destroy(wide);
    truestep_optimizer_destroy(narrow);
}

static void run_refused(int32_t rank, void* given) {
    const lockstep* shared = given;
    truestep_problem* problem = make_problem(shared->ranks, shared->settings);
    truestep_communicator* communicator = join(shared, rank, NULL);
    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    truestep_optimizer* optimizer = NULL;
    CHECK_OK(truestep_optimizer_create(problem, communicator, &whole, 1, &optimizer));
    make_gradient(values, rank, 1);
    const float good = values[42];
    if (rank == 1)
        values[42] = (float)strtod("nan", NULL);
    CHECK_FAILS(truestep_optimizer_step(optimizer, &whole, 1, 0.01), TRUESTEP_REFUSED,
                "rank 1, tensor norm, index 2");
    CHECK(truestep_optimizer_steps(optimizer) == 0);
    values[42] = good;
    CHECK_OK(truestep_optimizer_step(optimizer, &whole, 1, 0.01));
    truestep_optimizer_destroy(optimizer);
    truestep_communicator_destroy(communicator);
    truestep_problem_destroy(problem);
}

static void run_failing(int32_t rank, void* given) {
    const lockstep* shared = given;
    void* place = malloc(exchange_place_size());
    truestep_problem* problem = make_problem(shared->ranks, shared->settings);
    truestep_communicator* communicator = join(shared, rank, place);
    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    truestep_optimizer* optimizer = NULL;
    CHECK_OK(truestep_optimizer_create(problem, communicator, &whole, 1, &optimizer));
    CHECK_FAILS(truestep_optimizer_step(optimizer, &whole, 1, 0.01), TRUESTEP_ABORTED, "the cable is out");
    truestep_optimizer_destroy(optimizer);
    truestep_communicator_destroy(communicator);
    truestep_problem_destroy(problem);
    free(place);
}

static void failures_are_told(void) {
    lockstep shared = {settings, RANKS, NULL, NULL};
    CHECK_OK(truestep_group_create(RANKS, 60000, &shared.group));
    run_ranks(RANKS, run_refused, &shared);
    truestep_group_destroy(shared.group);
    shared.group = NULL;
    shared.room = exchange_room_make(RANKS);
    for (int32_t rank = 0; rank < RANKS; ++rank)
        exchange_room_fail(shared.room, rank, 2);
    run_ranks(RANKS, run_failing, &shared);
    exchange_room_free(shared.room);
}

/* The figures are those of docs/specification/traces.md. */
static void fingerprints_are_of_every_bit(void) {
    const float values[3] = {1.0F, 2.0F, 3.0F};
    const uint16_t halves[3] = {0x3f80, 0x4000, 0x4040};
    const truestep_values whole = floats(values, 3);
    const truestep_values begin = floats(values, 1);
    const truestep_values rest = floats(values + 1, 2);
    const truestep_values same = {halves, 3, TRUESTEP_BF16};
    uint64_t of_whole = 0;
    uint64_t of_begin = 0;
    uint64_t of_rest = 0;
    uint64_t of_halves = 0;
    CHECK_OK(truestep_fingerprint(&whole, 0, &of_whole));
    CHECK_OK(truestep_fingerprint(&begin, 0, &of_begin));
    CHECK_OK(truestep_fingerprint(&rest, 1, &of_rest));
    CHECK_OK(truestep_fingerprint(&same, 0, &of_halves));
    CHECK(of_whole == 0x376c94ff622abd95U);
    CHECK(of_begin == 0x2a5cf130132ea644U);
    CHECK(of_begin + of_rest == of_whole);
    CHECK(of_halves == of_whole);
    CHECK_FAILS(truestep_fingerprint(NULL, 0, &of_whole), TRUESTEP_ERROR, "values is NULL");
}

int main(int count, char** arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: abi_test FOLDER\n");
        return 2;
    }
    const char* folder = arguments[1];
    CHECK(truestep_abi_version() == TRUESTEP_ABI_VERSION);
    CHECK(truestep_abi_minor_version() == TRUESTEP_ABI_MINOR_VERSION);
    CHECK(strlen(truestep_version()) > 0);
    ranks_are_right(settings);
    ranks_are_right("density=linear:1:0.1:3 partition=by_tensor bias_correction=none threads=2");
    a_state_goes_on(settings, folder);
    a_state_goes_on("density=0.3 payload=e5m2 clip_norm=1", folder);
    a_state_goes_on("density=0.3 payload=e5m2_both clip_norm=1", folder);
    bf16_is_what_it_stands_for();
    fingerprints_are_of_every_bit();
    failures_are_told();
    bad_input_is_told();
    parts_are_their_sum();
    gradients_are_used_up();
    traces_are_judged(folder);
    parts_of_runs_are_judged(folder);
    parameter_groups_are_judged(folder);
    parts_of_scaled_runs_are_judged(folder);
    ranks_record_by_themselves(folder);
    what_is_missing_is_told(folder);
    gasloc_is_right(folder);
    mapl_is_right();
    mapl_codewords_are_right();
    printf("%d failed\n", failed_checks());
    return failed_checks() == 0 ? 0 : 1;
}

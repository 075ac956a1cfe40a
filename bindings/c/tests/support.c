#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

const truestep_tensor model[TENSORS] = {{"embed", 40, 0}, {"norm", 5, 1}, {"mlp", 55, 0}};
const char* const settings = "density=0.1 clip_norm=1.5";

static atomic_int failures;

void check_failed(const char* file, int line, const char* what) {
    fprintf(stderr, "%s:%d: failed: %s (last error: %s)\n", file, line, what, truestep_last_error());
    atomic_fetch_add(&failures, 1);
}

int failed_checks(void) {
    return atomic_load(&failures);
}

void check_ok(truestep_status status, const char* file, int line, const char* what) {
    if (status != TRUESTEP_OK)
        check_failed(file, line, what);
}

void check_fails(truestep_status got, truestep_status wanted, const char* text, const char* file, int line,
                 const char* what) {
    if (got != wanted || strstr(truestep_last_error(), text) == NULL) {
        fprintf(stderr, "status %d, wanted %d with '%s'\n", (int)got, (int)wanted, text);
        check_failed(file, line, what);
    }
}

/* Any numbers will do that are not alike; of both signs, and of several sizes. */
float synthetic(int32_t rank, int32_t step, int64_t index) {
    uint64_t bits = (uint64_t)rank * 1000003U + (uint64_t)step * 7919U + (uint64_t)index * 104729U + 17U;
    bits ^= bits >> 7U;
    bits *= 0x9E3779B97F4A7C15U;
    bits ^= bits >> 29U;
    return (float)((double)(int64_t)(bits % 20001U) - 10000.0) / 4096.0F;
}

void make_gradient(float* gradient, int32_t rank, int32_t step) {
    for (int64_t i = 0; i < SIZE; ++i)
        gradient[i] = synthetic(rank, step, i);
}

void make_parameters(float* parameters) {
    for (int64_t i = 0; i < SIZE; ++i)
        parameters[i] = synthetic(99, 0, i) / 8.0F;
}

truestep_values floats(const float* values, int64_t count) {
    truestep_values result = {values, count, TRUESTEP_F32};
    return result;
}

truestep_problem* make_problem(int32_t workers, const char* text) {
    truestep_problem* problem = NULL;
    CHECK_OK(truestep_problem_create(model, TENSORS, workers, text, &problem));
    return problem;
}

void reference_step(truestep_reference* reference, int32_t ranks, int32_t step) {
    float gradients[8][SIZE];
    truestep_values all[8];
    for (int32_t rank = 0; rank < ranks; ++rank) {
        make_gradient(gradients[rank], rank, step);
        all[rank] = floats(gradients[rank], SIZE);
    }
    CHECK_OK(truestep_reference_step(reference, all, (size_t)ranks, 0.01));
}

void check_views(truestep_optimizer* optimizer, truestep_reference* reference, int32_t rank) {
    for (int32_t what = TRUESTEP_PARAMETERS; what <= TRUESTEP_NEXT_MASK; ++what) {
        truestep_values mine;
        truestep_values right;
        CHECK_OK(truestep_optimizer_view(optimizer, what, &mine));
        CHECK_OK(truestep_reference_view(reference, what, rank, &right));
        CHECK(same(mine, right));
    }
}

truestep_state state_of(truestep_optimizer* optimizer) {
    truestep_state state = {.struct_size = sizeof state, .step = truestep_optimizer_steps(optimizer)};
    CHECK_OK(truestep_optimizer_view(optimizer, TRUESTEP_NEXT_MASK, &state.next_mask));
    CHECK_OK(truestep_optimizer_view(optimizer, TRUESTEP_MASK, &state.mask));
    CHECK_OK(truestep_optimizer_view(optimizer, TRUESTEP_PARAMETERS, &state.parameters));
    CHECK_OK(truestep_optimizer_view(optimizer, TRUESTEP_RESIDUAL, &state.residual));
    CHECK_OK(truestep_optimizer_view(optimizer, TRUESTEP_FIRST_MOMENT, &state.first_moment));
    CHECK_OK(truestep_optimizer_exponent(optimizer, &state.exponent));
    return state;
}

typedef struct rank_call {
    void (*function)(int32_t, void*);
    int32_t rank;
    void* shared;
} rank_call;

static void* run_rank(void* given) {
    const rank_call* call = given;
    call->function(call->rank, call->shared);
    return NULL;
}

void run_ranks(int32_t ranks, void (*function)(int32_t rank, void* shared), void* shared) {
    pthread_t threads[8];
    rank_call calls[8];
    for (int32_t rank = 0; rank < ranks; ++rank) {
        calls[rank] = (rank_call){function, rank, shared};
        if (pthread_create(&threads[rank], NULL, run_rank, &calls[rank]) != 0)
            abort();
    }
    for (int32_t rank = 0; rank < ranks; ++rank)
        pthread_join(threads[rank], NULL);
}

truestep_optimizer* make_rank(const group_of* shared, int32_t rank, truestep_reference** reference) {
    truestep_problem* problem = make_problem(shared->ranks, settings);
    truestep_communicator* communicator = NULL;
    CHECK_OK(truestep_group_communicator(shared->group, rank, &communicator));
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_optimizer* optimizer = NULL;
    CHECK_OK(truestep_optimizer_create(problem, communicator, &whole, 1, &optimizer));
    if (reference != NULL)
        CHECK_OK(truestep_reference_create(problem, &whole, 1, reference));
    truestep_communicator_destroy(communicator);
    truestep_problem_destroy(problem);
    return optimizer;
}

int same(truestep_values a, truestep_values b) {
    if (a.type != b.type || a.count != b.count)
        return 0;
    return memcmp(a.data, b.data, (size_t)a.count * (a.type == TRUESTEP_F32 ? sizeof(float) : 1)) == 0;
}

/* ---- The communicator: what a rank sends is copied when it starts, so that nobody waits for who reads it.
 * ---- */

enum { MOST_EXCHANGES = 512, MOST_RANKS = 8 };

typedef struct post {
    unsigned char* data[MOST_RANKS]; /* for each receiver */
    size_t sizes[MOST_RANKS];
    int present;
} post;

struct exchange_room {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int32_t ranks;
    int64_t fails_from[MOST_RANKS];
    post posts[MOST_EXCHANGES][MOST_RANKS];
};

typedef struct exchange {
    int64_t number;
    unsigned char* receive;
    size_t sizes[MOST_RANKS];
} exchange;

typedef struct place {
    exchange_room* room;
    int32_t rank;
    int64_t started;
} place;

size_t exchange_place_size(void) {
    return sizeof(place);
}

exchange_room* exchange_room_make(int32_t ranks) {
    exchange_room* room = calloc(1, sizeof *room);
    if (room == NULL)
        abort();
    pthread_mutex_init(&room->mutex, NULL);
    pthread_cond_init(&room->changed, NULL);
    room->ranks = ranks;
    for (int32_t rank = 0; rank < MOST_RANKS; ++rank)
        room->fails_from[rank] = MOST_EXCHANGES;
    return room;
}

void exchange_room_free(exchange_room* room) {
    for (int number = 0; number < MOST_EXCHANGES; ++number)
        for (int rank = 0; rank < MOST_RANKS; ++rank)
            for (int to = 0; to < MOST_RANKS; ++to)
                free(room->posts[number][rank].data[to]);
    pthread_cond_destroy(&room->changed);
    pthread_mutex_destroy(&room->mutex);
    free(room);
}

void exchange_room_fail(exchange_room* room, int32_t rank, int64_t from) {
    room->fails_from[rank] = from;
}

static unsigned char* copy_of(const void* data, size_t size) {
    unsigned char* copy = malloc(size + 1);
    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* `parts` of a gather is 0: all receivers get the same one. */
static int32_t start(place* mine, const void* send, const size_t* parts, size_t whole, void* receive,
                     const size_t* sizes, void** out) {
    exchange_room* room = mine->room;
    exchange* made = calloc(1, sizeof *made);
    if (made == NULL || mine->started == MOST_EXCHANGES)
        abort();
    made->number = mine->started++;
    made->receive = receive;
    memcpy(made->sizes, sizes, (size_t)room->ranks * sizeof *sizes);
    pthread_mutex_lock(&room->mutex);
    post* posted = &room->posts[made->number][mine->rank];
    const unsigned char* from = send;
    for (int32_t to = 0; to < room->ranks; ++to) {
        posted->sizes[to] = parts != NULL ? parts[to] : whole;
        posted->data[to] = copy_of(from, posted->sizes[to]);
        from += parts != NULL ? parts[to] : 0;
    }
    posted->present = 1;
    pthread_cond_broadcast(&room->changed);
    pthread_mutex_unlock(&room->mutex);
    *out = made;
    return 0;
}

static int32_t all_to_all(void* self, int32_t traffic, const void* send, const size_t* send_sizes,
                          void* receive, const size_t* receive_sizes, void** out) {
    CHECK(traffic >= 0 && traffic < TRUESTEP_TRAFFIC_KINDS);
    return start(self, send, send_sizes, 0, receive, receive_sizes, out);
}

static int32_t all_gather(void* self, int32_t traffic, const void* send, void* receive, const size_t* sizes,
                          void** out) {
    place* mine = self;
    CHECK(traffic >= 0 && traffic < TRUESTEP_TRAFFIC_KINDS);
    return start(mine, send, NULL, sizes[mine->rank], receive, sizes, out);
}

static int32_t wait_for(void* self, void* given) {
    place* mine = self;
    exchange_room* room = mine->room;
    exchange* waited = given;
    const int fails = waited->number >= room->fails_from[mine->rank];
    pthread_mutex_lock(&room->mutex);
    for (int32_t from = 0, at = 0; !fails && from < room->ranks; ++from) {
        post* posted = &room->posts[waited->number][from];
        while (!posted->present)
            pthread_cond_wait(&room->changed, &room->mutex);
        CHECK(posted->sizes[mine->rank] == waited->sizes[from]);
        if (waited->sizes[from] > 0)
            memcpy(waited->receive + at, posted->data[mine->rank], waited->sizes[from]);
        at += (int32_t)waited->sizes[from];
    }
    pthread_mutex_unlock(&room->mutex);
    if (fails)
        truestep_set_error("the cable is out");
    free(waited);
    return fails;
}

truestep_exchanges exchanges_of(exchange_room* room, int32_t rank, void* given) {
    place* mine = given;
    *mine = (place){room, rank, 0};
    truestep_exchanges result = {sizeof result, mine, rank,     room->ranks, all_to_all,
                                 all_gather,    NULL, wait_for, NULL};
    return result;
}

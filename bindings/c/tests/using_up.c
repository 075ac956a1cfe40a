/* A step that may write into its gradient, over C: the reference's bits, however much of it stands in its
 * place. */
#include <math.h>

#include "support.h"

enum { FIRST = 40, SECOND = 5 }; /* of the model's tensors */

static float* room_of(truestep_optimizer* optimizer) {
    truestep_values room;
    CHECK_OK(truestep_optimizer_gradient(optimizer, &room));
    CHECK(room.count == SIZE && room.type == TRUESTEP_F32);
    return (float*)(uintptr_t)room.data;
}

/* In the second tensor zeros, so that they may be left out. */
static void make_made(float* gradient, int32_t rank, int32_t step) {
    make_gradient(gradient, rank, step);
    memset(gradient + FIRST, 0, SECOND * sizeof *gradient);
}

/* All in its place, some of it, or nothing. */
static truestep_status step_once(truestep_optimizer* optimizer, const float* gradient, int32_t way) {
    float* room = room_of(optimizer);
    const truestep_values zeros = {NULL, SECOND, TRUESTEP_F32};
    if (way == 0) {
        memcpy(room, gradient, SIZE * sizeof *room);
        const truestep_values whole = floats(room, SIZE);
        return truestep_optimizer_step_using_up(optimizer, &whole, 1, 0.01);
    }
    memset(room, 0x7f, SIZE * sizeof *room);
    if (way == 1) {
        memcpy(room, gradient, FIRST * sizeof *room);
        const truestep_values pieces[3] = {floats(room, FIRST), zeros,
                                           floats(gradient + FIRST + SECOND, SIZE - FIRST - SECOND)};
        return truestep_optimizer_step_using_up(optimizer, pieces, 3, 0.01);
    }
    const truestep_values whole = floats(gradient, SIZE);
    return truestep_optimizer_step_using_up(optimizer, &whole, 1, 0.01);
}

static void step_reference(truestep_reference* reference, int32_t ranks, int32_t step) {
    float made[8][SIZE];
    truestep_values gradients[8];
    for (int32_t rank = 0; rank < ranks; ++rank) {
        make_made(made[rank], rank, step);
        gradients[rank] = floats(made[rank], SIZE);
    }
    CHECK_OK(truestep_reference_step(reference, gradients, (size_t)ranks, 0.01));
}

static void run_using_up(int32_t rank, void* given) {
    const group_of* shared = given;
    truestep_reference* reference = NULL;
    truestep_optimizer* optimizer = make_rank(shared, rank, &reference);
    for (int32_t i = 0; i < SIZE; ++i)
        CHECK(room_of(optimizer)[i] == 0.0F);
    for (int32_t step = 1; step <= STEPS; ++step) {
        float gradient[SIZE];
        make_made(gradient, rank, step);
        if (step > 2) { /* refused on all ranks, and nothing has changed */
            float bad[SIZE];
            memcpy(bad, gradient, sizeof bad);
            if (rank == 0)
                bad[SIZE - 1] = INFINITY;
            const truestep_status status = step_once(optimizer, bad, (step + rank) % 3);
            CHECK_FAILS(status, TRUESTEP_REFUSED, "the gradient of rank 0");
            check_views(optimizer, reference, rank);
        }
        CHECK_OK(step_once(optimizer, gradient, (step + rank + 1) % 3)); /* another way on each rank */
        step_reference(reference, shared->ranks, step);
        check_views(optimizer, reference, rank);
    }
    truestep_optimizer_destroy(optimizer);
    truestep_reference_destroy(reference);
}

static void wrong_ones_are_told(void) {
    const group_of one = {NULL, 1};
    truestep_optimizer* optimizer = NULL;
    truestep_problem* problem = make_problem(one.ranks, settings);
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    CHECK_OK(truestep_optimizer_create(problem, NULL, &whole, 1, &optimizer));
    truestep_problem_destroy(problem);
    truestep_values room;
    CHECK_FAILS(truestep_optimizer_gradient(NULL, &room), TRUESTEP_ERROR, "optimizer is NULL");
    CHECK_FAILS(truestep_optimizer_gradient(optimizer, NULL), TRUESTEP_ERROR, "room is NULL");
    const truestep_values part = floats(room_of(optimizer), SIZE - 1);
    CHECK_FAILS(truestep_optimizer_step_using_up(optimizer, &part, 1, 0.01), TRUESTEP_ERROR,
                "it has 99 values");
    CHECK_FAILS(truestep_optimizer_step_using_up(NULL, &whole, 1, 0.01), TRUESTEP_ERROR,
                "optimizer is NULL");
    const size_t first = 0;
    const truestep_values of_first = floats(start, model[0].size);
    CHECK_OK(truestep_optimizer_bucket(optimizer, &first, 1, &of_first, 1));
    CHECK_FAILS(truestep_optimizer_step_using_up(optimizer, &whole, 1, 0.01), TRUESTEP_ERROR,
                "after buckets of one");
    CHECK_OK(truestep_optimizer_forget_parts(optimizer));
    CHECK(truestep_optimizer_steps(optimizer) == 0);
    truestep_optimizer_destroy(optimizer);
}

void gradients_are_used_up(void) {
    for (int32_t ranks = 1; ranks <= 4; ++ranks) {
        group_of shared = {NULL, ranks};
        CHECK_OK(truestep_group_create(ranks, 60000, &shared.group));
        run_ranks(ranks, run_using_up, &shared);
        truestep_group_destroy(shared.group);
    }
    wrong_ones_are_told();
}

/* A gradient in parts, over C: the bits of its sum at once, on every rank. */
#include "support.h"

/* The parts of a rank's gradient; another number on each rank. */
static void make_part(float* part, int32_t rank, int32_t step, int32_t number) {
    make_gradient(part, rank, 100 * number + step);
}

/* In fp32, in their order. */
static void make_sum(float* sum, int32_t rank, int32_t step, int32_t parts) {
    make_part(sum, rank, step, 0);
    for (int32_t number = 1; number < parts; ++number) {
        float part[SIZE];
        make_part(part, rank, step, number);
        for (int32_t i = 0; i < SIZE; ++i)
            sum[i] += part[i];
    }
}

/* Gives some tensors that follow each other. */
static void give_bucket(truestep_optimizer* optimizer, const float* gradient, const size_t* tensors,
                        size_t count) {
    int64_t begin = 0;
    int64_t size = 0;
    for (size_t before = 0; before < tensors[0]; ++before)
        begin += model[before].size;
    for (size_t i = 0; i < count; ++i)
        size += model[tensors[i]].size;
    /* It is copied, so later changes do not matter. */
    float values[SIZE];
    memcpy(values, gradient + begin, (size_t)size * sizeof *values);
    const truestep_values pieces[2] = {floats(values, 1), floats(values + 1, size - 1)};
    CHECK_OK(truestep_optimizer_bucket(optimizer, tensors, count, pieces, 2));
    memset(values, 0x7f, sizeof values);
}

static int32_t parts_of(int32_t rank, int32_t step) {
    return 1 + (rank + step) % 3;
}

/* All parts but the last are accumulated; the last comes in buckets in every second step. */
static void give_parts(truestep_optimizer* optimizer, int32_t rank, int32_t step) {
    const int32_t parts = parts_of(rank, step);
    const int in_buckets = step % 2 == 0;
    for (int32_t number = 0; number < parts; ++number) {
        float part[SIZE];
        make_part(part, rank, step, number);
        const truestep_values pieces[2] = {floats(part, 7), floats(part + 7, SIZE - 7)};
        if (number + 1 < parts || !in_buckets)
            CHECK_OK(truestep_optimizer_accumulate(optimizer, pieces, 2));
        else {
            const size_t last[2] = {TENSORS - 2, TENSORS - 1};
            give_bucket(optimizer, part, last, 2);
            for (size_t tensor = TENSORS - 2; tensor-- > 0;)
                give_bucket(optimizer, part, &tensor, 1);
        }
    }
}

static void step_reference_in_parts(truestep_reference* reference, int32_t ranks, int32_t step) {
    float sums[8][SIZE];
    truestep_values gradients[8];
    for (int32_t rank = 0; rank < ranks; ++rank) {
        make_sum(sums[rank], rank, step, parts_of(rank, step));
        gradients[rank] = floats(sums[rank], SIZE);
    }
    CHECK_OK(truestep_reference_step(reference, gradients, (size_t)ranks, 0.01));
}

static void run_parts(int32_t rank, void* given) {
    const group_of* shared = given;
    truestep_reference* reference = NULL;
    truestep_optimizer* optimizer = make_rank(shared, rank, &reference);
    for (int32_t step = 1; step <= STEPS; ++step) {
        /* What is given up leaves nothing behind, nor what a restored state finds under way. */
        give_parts(optimizer, rank, step + 1);
        if (step / 2 % 2 == 0) {
            CHECK_OK(truestep_optimizer_forget_parts(optimizer));
        } else {
            const truestep_state state = state_of(optimizer);
            CHECK_OK(truestep_optimizer_restore(optimizer, &state));
        }
        give_parts(optimizer, rank, step);
        CHECK_OK(truestep_optimizer_step_of_parts(optimizer, 0.01));
        step_reference_in_parts(reference, shared->ranks, step);
        check_views(optimizer, reference, rank);
    }
    truestep_optimizer_destroy(optimizer);
    truestep_reference_destroy(reference);
}

/* On all ranks, and nothing has changed: the next step is a good one. */
static void run_wrong_parts(int32_t rank, void* given) {
    truestep_optimizer* optimizer = make_rank(given, rank, NULL);
    float gradient[SIZE];
    make_gradient(gradient, rank, 1);
    const truestep_values whole = floats(gradient, SIZE);
    const size_t first = 0;
    const size_t unknown = TENSORS;
    const size_t other = rank == 1 ? 1 : 0;
    const truestep_values of_first = floats(gradient, model[0].size);
    CHECK_FAILS(truestep_optimizer_step_of_parts(optimizer, 0.01), TRUESTEP_ERROR,
                "nothing has been accumulated");
    CHECK_FAILS(truestep_optimizer_bucket(optimizer, &first, 1, &whole, 1), TRUESTEP_ERROR,
                "more than 40 values");
    CHECK_FAILS(truestep_optimizer_bucket(optimizer, NULL, 1, &whole, 1), TRUESTEP_ERROR,
                "tensors is NULL");
    CHECK_FAILS(truestep_optimizer_bucket(optimizer, &unknown, 1, NULL, 0), TRUESTEP_ERROR,
                "there is no tensor 3");
    CHECK_FAILS(truestep_optimizer_bucket(optimizer, NULL, 0, NULL, 0), TRUESTEP_ERROR,
                "it has no tensors");
    const truestep_values of_other = floats(gradient, model[other].size);
    CHECK_FAILS(truestep_optimizer_bucket(optimizer, &other, 1, &of_other, 1), TRUESTEP_ERROR, "rank 1");
    CHECK_OK(truestep_optimizer_bucket(optimizer, &first, 1, &of_first, 1));
    CHECK_FAILS(truestep_optimizer_step(optimizer, &whole, 1, 0.01), TRUESTEP_ERROR,
                "after buckets of one");
    CHECK_OK(truestep_optimizer_bucket(optimizer, &first, 1, &of_first, 1)); /* the step has forgotten it */
    CHECK_FAILS(truestep_optimizer_accumulate(optimizer, &whole, 1), TRUESTEP_ERROR, "after buckets");
    CHECK_FAILS(truestep_optimizer_step_of_parts(optimizer, 0.01), TRUESTEP_ERROR,
                "no bucket has held tensor");
    CHECK(truestep_optimizer_steps(optimizer) == 0);
    CHECK_OK(truestep_optimizer_step(optimizer, &whole, 1, 0.01));
    CHECK(truestep_optimizer_steps(optimizer) == 1);
    truestep_optimizer_destroy(optimizer);
}

/* What rank 1 alone cannot take ends the step on all ranks, and the others need not wait for it. */
static void run_wrong_on_one_rank(int32_t rank, void* given) {
    truestep_optimizer* optimizer = make_rank(given, rank, NULL);
    float gradient[SIZE];
    make_gradient(gradient, rank, 1);
    const truestep_values whole = floats(gradient, SIZE);
    const truestep_values of_first = floats(gradient, model[0].size);
    const size_t first = 0;
    const int mine = rank == 1;
    for (int32_t step = 0; step < STEPS; ++step) {
        if (!mine)
            CHECK_OK(truestep_optimizer_accumulate(optimizer, &whole, 1));
        CHECK_FAILS(truestep_optimizer_step_of_parts(optimizer, 0.01), TRUESTEP_ERROR,
                    mine ? "nothing has been accumulated" : "rank 1 refused the step");
        CHECK_FAILS(truestep_optimizer_bucket(optimizer, &first, 1, mine ? &whole : &of_first, 1),
                    TRUESTEP_ERROR, mine ? "more than 40 values" : "bucket 1: rank 1 refused the step");
        CHECK_FAILS(truestep_optimizer_bucket(optimizer, mine ? NULL : &first, 1, &of_first, 1),
                    TRUESTEP_ERROR, mine ? "tensors is NULL" : "bucket 1: rank 1 refused the step");
        CHECK(truestep_optimizer_steps(optimizer) == step);
        give_parts(optimizer, rank, step);
        CHECK_OK(truestep_optimizer_step_of_parts(optimizer, 0.01));
    }
    truestep_optimizer_destroy(optimizer);
}

void parts_are_their_sum(void) {
    for (int32_t ranks = 1; ranks <= 4; ++ranks) {
        group_of shared = {NULL, ranks};
        CHECK_OK(truestep_group_create(ranks, 60000, &shared.group));
        run_ranks(ranks, run_parts, &shared);
        truestep_group_destroy(shared.group);
    }
    void (*const wrong[])(int32_t, void*) = {run_wrong_parts, run_wrong_on_one_rank};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        group_of shared = {NULL, RANKS};
        CHECK_OK(truestep_group_create(RANKS, 60000, &shared.group));
        run_ranks(RANKS, wrong[i], &shared);
        truestep_group_destroy(shared.group);
    }
}

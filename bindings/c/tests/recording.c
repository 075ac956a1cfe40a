/* Recorder and verifier: what the reference does passes; one value that is changed does not. */
#include "support.h"

#include <stdlib.h>

static void record_view(truestep_recorder* recorder, truestep_reference* reference, const char* name,
                        int32_t what, int32_t rank, float* changed) {
    truestep_values view;
    CHECK_OK(truestep_reference_view(reference, what, rank, &view));
    if (changed != NULL) {
        memcpy(changed, view.data, SIZE * sizeof(float));
        changed[7] *= 1.0000002F;
        view.data = changed;
    }
    CHECK_OK(truestep_recorder_add(recorder, name, rank, &view, 1));
}

static truestep_recorder* record(int copies, int32_t changed_step) {
    truestep_problem* problem = make_problem(RANKS, "density=geometric:0.5:0.3:3");
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    truestep_reference* reference = NULL;
    truestep_recorder* recorder = NULL;
    CHECK_OK(truestep_reference_create(problem, &whole, 1, &reference));
    CHECK_OK(truestep_recorder_create(problem, "abi_test", &whole, 1, &recorder));
    truestep_problem_destroy(problem);
    for (int32_t step = 1; step <= STEPS; ++step) {
        reference_step(reference, RANKS, step);
        CHECK_OK(truestep_recorder_begin_step(recorder, 0.01));
        for (int32_t rank = 0; rank < RANKS; ++rank) {
            float gradient[SIZE];
            make_gradient(gradient, rank, step);
            const truestep_values all = floats(gradient, SIZE);
            CHECK_OK(truestep_recorder_add(recorder, "gradient", rank, &all, 1));
            record_view(recorder, reference, "local", TRUESTEP_LOCAL, rank, NULL);
            record_view(recorder, reference, "residual", TRUESTEP_RESIDUAL, rank, NULL);
        }
        for (int32_t rank = 0; rank < (copies ? RANKS : 1); ++rank) {
            float changed[SIZE];
            const int change = step == changed_step && rank == (copies ? 2 : 0);
            record_view(recorder, reference, "parameters", TRUESTEP_PARAMETERS, rank,
                        change ? changed : NULL);
            record_view(recorder, reference, "first_moment", TRUESTEP_FIRST_MOMENT, rank, NULL);
            record_view(recorder, reference, "mask", TRUESTEP_MASK, rank, NULL);
            record_view(recorder, reference, "next_mask", TRUESTEP_NEXT_MASK, rank, NULL);
        }
        record_view(recorder, reference, "exchanged", TRUESTEP_EXCHANGED, 0, NULL);
        record_view(recorder, reference, "reconstructed", TRUESTEP_RECONSTRUCTED, 0, NULL);
    }
    truestep_reference_destroy(reference);
    return recorder;
}

static void verdict_is(const char* path, const char* level, int passed, const char* text) {
    truestep_verdict* verdict = NULL;
    CHECK_OK(truestep_verify(path, level, NULL, &verdict));
    CHECK(truestep_verdict_passed(verdict) == passed);
    if (strstr(truestep_verdict_text(verdict), text) == NULL) {
        fprintf(stderr, "no '%s' in\n%s", text, truestep_verdict_text(verdict));
        check_failed(__FILE__, __LINE__, "the verdict's text");
    }
    CHECK(strstr(truestep_verdict_json(verdict), "\"rows\"") != NULL);
    truestep_verdict_destroy(verdict);
}

/* E of the coming step, of e5m2: the greatest exponent that any rank had on the mask of the last one. */
static int32_t next_exponent(truestep_reference* reference) {
    truestep_values mask;
    CHECK_OK(truestep_reference_view(reference, TRUESTEP_MASK, 0, &mask));
    int32_t greatest = -127;
    for (int32_t rank = 0; rank < RANKS; ++rank) {
        truestep_values local;
        CHECK_OK(truestep_reference_view(reference, TRUESTEP_LOCAL, rank, &local));
        for (int i = 0; i < SIZE; ++i) {
            uint32_t bits = 0;
            memcpy(&bits, (const float*)local.data + i, sizeof bits);
            const int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 127;
            if ((((const uint8_t*)mask.data)[i / 8] >> i % 8 & 1) && exponent > greatest)
                greatest = exponent;
        }
    }
    return greatest;
}

enum { NO_EXPONENT = 1000, NO_RATE = NO_EXPONENT };

/* Of steps 3 and on, in mid-run: what the step before has left, and the tensors that `sample` names. E is
 * off by so much, or left out; of parameter groups so is the second one's learning rate, in hundredths. */
static truestep_recorder* record_part(const char* sample, const char* given, int whole_vectors, float added,
                                      int32_t exponent_off) {
    truestep_problem* problem = make_problem(RANKS, given);
    float start[SIZE];
    make_parameters(start);
    truestep_values whole = floats(start, SIZE);
    truestep_reference* reference = NULL;
    truestep_recorder* recorder = NULL;
    CHECK_OK(truestep_reference_create(problem, &whole, 1, &reference));
    for (int32_t step = 1; step <= 2; ++step)
        reference_step(reference, RANKS, step);
    CHECK_OK(truestep_reference_view(reference, TRUESTEP_PARAMETERS, 0, &whole));
    CHECK_OK(truestep_recorder_create(problem, "abi_test", &whole, 1, &recorder));
    CHECK_OK(truestep_recorder_sample(recorder, sample));
    CHECK_OK(truestep_recorder_begin_at(recorder, 2));
    record_view(recorder, reference, "first_moment", TRUESTEP_FIRST_MOMENT, 0, NULL);
    record_view(recorder, reference, "mask", TRUESTEP_NEXT_MASK, 0, NULL);
    for (int32_t rank = 0; rank < RANKS; ++rank)
        record_view(recorder, reference, "residual", TRUESTEP_RESIDUAL, rank, NULL);
    int64_t held[2 * SIZE];
    size_t count = 0;
    CHECK_OK(truestep_recorder_held(recorder, held, SIZE, &count));
    CHECK(count > 0 && count < SIZE);
    for (int32_t step = 3; step <= STEPS; ++step) {
        const int32_t E = next_exponent(reference);
        reference_step(reference, RANKS, step);
        CHECK_OK(truestep_recorder_begin_step(recorder, 0.01));
        if (strstr(given, "param_groups") != NULL && exponent_off != NO_RATE)
            CHECK_OK(truestep_recorder_learning_rate(recorder, 1, 0.01 * (1 + exponent_off)));
        if (strstr(given, "e5m2") != NULL && exponent_off != NO_EXPONENT)
            CHECK_OK(truestep_recorder_exponent(recorder, E + exponent_off));
        for (int32_t rank = 0; rank < RANKS; ++rank) {
            float gradient[SIZE];
            make_gradient(gradient, rank, step);
            truestep_values pieces[SIZE];
            for (size_t i = 0; i < count; ++i)
                pieces[i] = floats(gradient + held[2 * i], held[2 * i + 1] - held[2 * i]);
            const truestep_values all = floats(gradient, SIZE);
            CHECK_OK(whole_vectors ? truestep_recorder_add(recorder, "gradient", rank, &all, 1)
                                   : truestep_recorder_add(recorder, "gradient", rank, pieces, count));
            record_view(recorder, reference, "residual", TRUESTEP_RESIDUAL, rank, NULL);
        }
        truestep_values view;
        CHECK_OK(truestep_reference_view(reference, TRUESTEP_PARAMETERS, 0, &view));
        float changed[SIZE];
        memcpy(changed, view.data, sizeof changed);
        changed[held[0]] += added;
        view.data = changed;
        CHECK_OK(truestep_recorder_add(recorder, "parameters", 0, &view, 1));
        record_view(recorder, reference, "first_moment", TRUESTEP_FIRST_MOMENT, 0, NULL);
        record_view(recorder, reference, "mask", TRUESTEP_MASK, 0, NULL);
        record_view(recorder, reference, "next_mask", TRUESTEP_NEXT_MASK, 0, NULL);
    }
    truestep_problem_destroy(problem);
    truestep_reference_destroy(reference);
    return recorder;
}

/* Whole or of the sample alone: it is told by the number of its bytes. */
static void masks_of_a_sample_are_taken(void) {
    const truestep_tensor tensors[] = {{"b", 12, 0}, {"w", 64, 0}};
    truestep_problem* problem = NULL;
    CHECK_OK(truestep_problem_create(tensors, 2, 1, "density=0.3", &problem));
    float start[76] = {0};
    const truestep_values whole = floats(start, 76);
    const uint8_t bits[10] = {0};
    for (int bytes = 7; bytes <= 10; ++bytes) {
        truestep_recorder* recorder = NULL;
        CHECK_OK(truestep_recorder_create(problem, "abi_test", &whole, 1, &recorder));
        CHECK_OK(truestep_recorder_sample(recorder, "w"));
        CHECK_OK(truestep_recorder_begin_at(recorder, 1));
        const truestep_values mask = {bits, bytes, TRUESTEP_BITS};
        if (bytes == 8 || bytes == 10)
            CHECK_OK(truestep_recorder_add(recorder, "mask", 0, &mask, 1));
        else
            CHECK_FAILS(truestep_recorder_add(recorder, "mask", 0, &mask, 1), TRUESTEP_ERROR, "mask");
        truestep_recorder_destroy(recorder);
    }
    truestep_problem_destroy(problem);
}

void parts_of_runs_are_judged(const char* folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/part.safetensors", folder);
    masks_of_a_sample_are_taken();
    truestep_recorder* changes = record_part("0.6:3", "density=geometric:0.5:0.1:6", 0, 0.0F, 0);
    CHECK_OK(truestep_recorder_write(changes, path));
    verdict_is(path, NULL, 1, "begins after step 2");
    truestep_recorder_destroy(changes);
    for (int whole_vectors = 0; whole_vectors <= 1; ++whole_vectors) {
        truestep_recorder* right = record_part("0.6:3", "density=0.3", whole_vectors, 0.0F, 0);
        CHECK_OK(truestep_recorder_write(right, path));
        verdict_is(path, NULL, 1, "sampled: ");
        verdict_is(path, NULL, 1, "begins after step 2");
        CHECK_FAILS(truestep_recorder_sample(right, "0.5"), TRUESTEP_ERROR, "before the first");
        CHECK_FAILS(truestep_recorder_begin_at(right, 1), TRUESTEP_ERROR, "before the first");
        CHECK_FAILS(truestep_recorder_norm(right, -1.0), TRUESTEP_ERROR, "at least 0");
        truestep_recorder_destroy(right);
        truestep_recorder* wrong = record_part("0.6:3", "density=0.3", whole_vectors, 0.5F, 0);
        CHECK_OK(truestep_recorder_write(wrong, path));
        verdict_is(path, NULL, 0, "first divergence: step 1, phase update, parameters");
        truestep_recorder_destroy(wrong);
    }
    truestep_recorder* clipped = record_part("0.6:3", "density=0.3 clip_norm=0.1", 1, 0.0F, 0);
    CHECK_FAILS(truestep_recorder_write(clipped, path), TRUESTEP_ERROR, "call truestep_recorder_norm");
    CHECK_FAILS(truestep_recorder_exponent(clipped, 3), TRUESTEP_ERROR, "is of a payload of e5m2");
    truestep_recorder_destroy(clipped);
}

void parts_of_scaled_runs_are_judged(const char* folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/scaled.safetensors", folder);
    const char* given = "density=0.3 payload=e5m2";
    truestep_recorder* right = record_part("0.6:3", given, 1, 0.0F, 0);
    CHECK_FAILS(truestep_recorder_exponent(right, 128), TRUESTEP_ERROR, "-126 to 127");
    CHECK_OK(truestep_recorder_write(right, path));
    verdict_is(path, NULL, 1, "the payload's scale is taken from the trace");
    truestep_recorder_destroy(right);
    truestep_recorder* wrong = record_part("0.6:3", given, 1, 0.0F, -9);
    CHECK_OK(truestep_recorder_write(wrong, path));
    verdict_is(path, NULL, 0, "first divergence: step 1, phase residual, residual");
    truestep_recorder_destroy(wrong);
    truestep_recorder* none = record_part("0.6:3", given, 1, 0.0F, NO_EXPONENT);
    CHECK_FAILS(truestep_recorder_write(none, path), TRUESTEP_ERROR, "call truestep_recorder_exponent");
    truestep_recorder_destroy(none);
}

void parameter_groups_are_judged(const char* folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/groups.safetensors", folder);
    const char* given = "density=0.3 param_groups=0,1,0 weight_decay=0.1,0";
    truestep_recorder* right = record_part("0.9:3", given, 1, 0.0F, 0);
    CHECK_FAILS(truestep_recorder_learning_rate(right, 2, 0.01), TRUESTEP_ERROR,
                "the problem has the groups 0 to 1");
    CHECK_FAILS(truestep_recorder_learning_rate(right, 1, 0.01), TRUESTEP_ERROR, "given twice in step");
    CHECK_FAILS(truestep_recorder_learning_rate(right, 0, 0.01), TRUESTEP_ERROR,
                "in truestep_recorder_begin_step");
    CHECK_OK(truestep_recorder_begin_step(right, 0.01));
    CHECK_FAILS(truestep_recorder_learning_rate(right, 1, -0.01), TRUESTEP_ERROR, "finite and 0 or more");
    CHECK_FAILS(truestep_recorder_learning_rate(right, 1, strtod("nan", NULL)), TRUESTEP_ERROR,
                "finite and 0 or more");
    truestep_recorder_destroy(right);
    right = record_part("0.9:3", given, 1, 0.0F, 0);
    CHECK_OK(truestep_recorder_write(right, path));
    verdict_is(path, NULL, 1, "2 parameter groups");
    truestep_recorder_destroy(right);
    truestep_recorder* wrong = record_part("0.9:3", given, 1, 0.0F, 2);
    CHECK_OK(truestep_recorder_write(wrong, path));
    verdict_is(path, "rel", 0, "first divergence: step 1, phase update, parameters");
    truestep_recorder_destroy(wrong);
    truestep_recorder* none = record_part("0.9:3", given, 1, 0.0F, NO_RATE);
    CHECK_FAILS(truestep_recorder_write(none, path), TRUESTEP_ERROR,
                "step 1 has no learning rate of parameter group 1; call truestep_recorder_learning_rate");
    truestep_recorder_destroy(none);
    /* What steps itself has one rate and decay for all, and says so. */
    truestep_problem* problem = make_problem(1, given);
    truestep_optimizer* optimizer = NULL;
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    CHECK_FAILS(truestep_optimizer_create(problem, NULL, &whole, 1, &optimizer), TRUESTEP_ERROR,
                "2 parameter groups");
    truestep_problem_destroy(problem);
}

void traces_are_judged(const char* folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/run.safetensors", folder);
    for (int copies = 0; copies <= 1; ++copies) {
        truestep_recorder* right = record(copies, 0);
        CHECK_OK(truestep_recorder_write(right, path));
        verdict_is(path, NULL, 1, "PASSED");
        verdict_is(path, "rel", 1, "PASSED");
        verdict_is(path, "bf16", 1, "level    BF16");
        truestep_recorder_destroy(right);
        truestep_recorder* wrong = record(copies, 4);
        CHECK_OK(truestep_recorder_write(wrong, path));
        verdict_is(path, "exact", 0, "first divergence: step 4, phase update, parameters");
        truestep_recorder_destroy(wrong);
    }
    truestep_verdict* verdict = NULL;
    CHECK_FAILS(truestep_verify(path, "about", NULL, &verdict), TRUESTEP_ERROR, "about");
    CHECK_FAILS(truestep_verify("/there/is/none", NULL, NULL, &verdict), TRUESTEP_ERROR, "/there/is/none");
    CHECK(verdict == NULL);
}

/* Each rank by itself, over a file; rank 1 may have another parameter. */
static void record_ranks(const char* folder, char paths[RANKS][4096], int drifts) {
    truestep_problem* problem = make_problem(RANKS, "density=0.3");
    float start[SIZE];
    make_parameters(start);
    const truestep_values whole = floats(start, SIZE);
    for (int32_t rank = 0; rank < RANKS; ++rank) {
        char spool[4096 + 8];
        snprintf(paths[rank], sizeof paths[rank], "%s/own.rank%d.safetensors", folder, (int)rank);
        snprintf(spool, sizeof spool, "%s.spool", paths[rank]);
        truestep_reference* reference = NULL;
        truestep_recorder* recorder = NULL;
        CHECK_OK(truestep_reference_create(problem, &whole, 1, &reference));
        CHECK_OK(truestep_recorder_create(problem, "abi_test", &whole, 1, &recorder));
        CHECK_FAILS(truestep_recorder_of_rank(recorder, RANKS), TRUESTEP_ERROR, "there is no rank 3");
        CHECK_FAILS(truestep_recorder_keep_in(recorder, "/no/such/folder/x"), TRUESTEP_ERROR,
                    "/no/such/folder/x");
        CHECK_OK(truestep_recorder_of_rank(recorder, rank));
        CHECK_OK(truestep_recorder_keep_in(recorder, spool));
        for (int32_t step = 1; step <= STEPS; ++step) {
            reference_step(reference, RANKS, step);
            float gradient[SIZE];
            float changed[SIZE];
            make_gradient(gradient, rank, step);
            const truestep_values all = floats(gradient, SIZE);
            CHECK_OK(truestep_recorder_begin_step(recorder, 0.01));
            CHECK_FAILS(truestep_recorder_add(recorder, "gradient", (rank + 1) % RANKS, &all, 1),
                        TRUESTEP_ERROR, "each rank records its own");
            CHECK_OK(truestep_recorder_add(recorder, "gradient", rank, &all, 1));
            record_view(recorder, reference, "residual", TRUESTEP_RESIDUAL, rank, NULL);
            record_view(recorder, reference, "exchanged", TRUESTEP_EXCHANGED, rank, NULL);
            const int change = drifts && rank == 1 && step == 4;
            record_view(recorder, reference, "parameters", TRUESTEP_PARAMETERS, rank,
                        change ? changed : NULL);
            record_view(recorder, reference, "first_moment", TRUESTEP_FIRST_MOMENT, rank, NULL);
            record_view(recorder, reference, "mask", TRUESTEP_MASK, rank, NULL);
            record_view(recorder, reference, "next_mask", TRUESTEP_NEXT_MASK, rank, NULL);
        }
        CHECK_FAILS(truestep_recorder_of_rank(recorder, 0), TRUESTEP_ERROR, "a step has begun");
        CHECK_OK(truestep_recorder_write(recorder, paths[rank]));
        CHECK(fopen(spool, "rb") == NULL); /* it has no name, so that nothing is left of it */
        truestep_recorder_destroy(recorder);
        truestep_reference_destroy(reference);
    }
    truestep_problem_destroy(problem);
}

void ranks_record_by_themselves(const char* folder) {
    static char own[RANKS][4096];
    const char* paths[RANKS];
    for (int32_t rank = 0; rank < RANKS; ++rank)
        paths[rank] = own[rank];
    char all[4096];
    char joined[4096];
    snprintf(all, sizeof all, "%s/own.rank*.safetensors", folder);
    snprintf(joined, sizeof joined, "%s/joined.safetensors", folder);
    truestep_verdict* verdict = NULL;
    for (int drifts = 0; drifts <= 1; ++drifts) {
        record_ranks(folder, own, drifts);
        const char* text =
            drifts ? "first divergence: step 4, phase update, parameters of rank 1" : "PASSED";
        verdict_is(all, "exact", !drifts, text);
        CHECK_OK(truestep_verify_ranks(paths, RANKS, NULL, NULL, &verdict));
        CHECK(truestep_verdict_passed(verdict) == !drifts);
        truestep_verdict_destroy(verdict);
        CHECK_OK(truestep_join(paths, RANKS, joined));
        verdict_is(joined, "exact", !drifts, text);
    }
    CHECK_FAILS(truestep_verify_ranks(paths, RANKS - 1, NULL, NULL, &verdict), TRUESTEP_ERROR,
                "rank 2 of 3 is missing");
    CHECK_FAILS(truestep_join(paths, 0, joined), TRUESTEP_ERROR, "no trace is given");
    CHECK_FAILS(truestep_join(NULL, 1, joined), TRUESTEP_ERROR, "paths is NULL");
}

void what_is_missing_is_told(const char* folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/missing.safetensors", folder);
    truestep_problem* problem = make_problem(RANKS, settings);
    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    truestep_recorder* recorder = NULL;
    CHECK_OK(truestep_recorder_create(problem, "abi_test", &whole, 1, &recorder));
    truestep_problem_destroy(problem);
    CHECK_FAILS(truestep_recorder_add(recorder, "gradient", 0, &whole, 1), TRUESTEP_ERROR,
                "no step has begun");
    CHECK_FAILS(truestep_recorder_write(recorder, path), TRUESTEP_ERROR, "no step has been recorded");
    CHECK_OK(truestep_recorder_begin_step(recorder, 0.01));
    CHECK_FAILS(truestep_recorder_write(recorder, path), TRUESTEP_ERROR, "no gradient");
    CHECK_FAILS(truestep_recorder_add(recorder, "weights", 0, &whole, 1), TRUESTEP_ERROR,
                "'weights' is not a result");
    CHECK_FAILS(truestep_recorder_add(recorder, "gradient", 3, &whole, 1), TRUESTEP_ERROR,
                "ranks are 0 to 2");
    CHECK_FAILS(truestep_recorder_add(recorder, "mask", 0, &whole, 1), TRUESTEP_ERROR,
                "give TRUESTEP_BITS, 13 bytes");
    CHECK_OK(truestep_recorder_add(recorder, "gradient", 0, &whole, 1));
    CHECK_FAILS(truestep_recorder_add(recorder, "gradient", 0, &whole, 1), TRUESTEP_ERROR, "given twice");
    CHECK_FAILS(truestep_recorder_write(recorder, path), TRUESTEP_ERROR,
                "gradient is given for 1 ranks of 3");
    CHECK_OK(truestep_recorder_add(recorder, "gradient", 1, &whole, 1));
    CHECK_OK(truestep_recorder_add(recorder, "gradient", 2, &whole, 1));
    CHECK_FAILS(truestep_recorder_write(recorder, path), TRUESTEP_ERROR, "no result");
    CHECK_OK(truestep_recorder_add(recorder, "parameters", 0, &whole, 1));
    CHECK_OK(truestep_recorder_write(recorder, path));
    CHECK_OK(truestep_recorder_begin_step(recorder, 0.01));
    CHECK_FAILS(truestep_recorder_write(recorder, path), TRUESTEP_ERROR, "step 2 has gradient of 0 ranks");
    truestep_recorder_destroy(recorder);
}

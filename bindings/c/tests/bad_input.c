/* What the C interface says of input that it cannot take. */
#include "support.h"

#include <math.h>

void bad_input_is_told(void) {
    truestep_problem* problem = NULL;
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "beta3=1", &problem), TRUESTEP_ERROR,
                "'beta3=1' is not a setting");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "beta1=1.5", &problem), TRUESTEP_ERROR, "beta1");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "beta1=much", &problem), TRUESTEP_ERROR,
                "beta1 is 'much'");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "beta1=0 beta1=0", &problem), TRUESTEP_ERROR,
                "given twice");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "density=linear:1", &problem), TRUESTEP_ERROR,
                "linear:1");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "density=2", &problem), TRUESTEP_ERROR,
                "density");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 0, "", &problem), TRUESTEP_ERROR, "workers");
    CHECK_FAILS(truestep_problem_create(NULL, 3, 3, "", &problem), TRUESTEP_ERROR, "tensors is NULL");
    CHECK_FAILS(truestep_problem_create(model, TENSORS, 3, "", NULL), TRUESTEP_ERROR, "problem is NULL");
    const truestep_tensor flat = {"flat", SIZE, 1};
    CHECK_FAILS(truestep_problem_create(&flat, 1, 3, "density=linear:1:0.25:10", &problem), TRUESTEP_ERROR,
                "density is 0.25, and every tensor is always dense");
    CHECK(problem == NULL);
    CHECK_OK(truestep_problem_create(&flat, 1, 3, "density=1", &problem));
    truestep_problem_destroy(problem);

    problem = make_problem(2, "density=geometric:1:0.01:100");
    CHECK(truestep_problem_size(problem) == SIZE);
    double density = 0.0;
    CHECK_OK(truestep_problem_density(problem, 1, &density));
    CHECK(density == 1.0);
    CHECK_FAILS(truestep_problem_density(problem, 0, &density), TRUESTEP_ERROR, "steps begin at 1");

    float values[SIZE];
    make_parameters(values);
    const truestep_values whole = floats(values, SIZE);
    const truestep_values wrong[2] = {floats(values, SIZE), floats(values, 1)};
    const truestep_values typed = {values, SIZE, 7};
    truestep_optimizer* optimizer = NULL;
    CHECK_FAILS(truestep_optimizer_create(problem, NULL, &whole, 1, &optimizer), TRUESTEP_ERROR,
                "2 workers");
    truestep_problem_destroy(problem);
    problem = make_problem(1, "");
    CHECK_FAILS(truestep_optimizer_create(problem, NULL, wrong, 2, &optimizer), TRUESTEP_ERROR,
                "more than 100 values");
    CHECK_FAILS(truestep_optimizer_create(problem, NULL, wrong + 1, 1, &optimizer), TRUESTEP_ERROR,
                "it has 1 values");
    CHECK_FAILS(truestep_optimizer_create(problem, NULL, &typed, 1, &optimizer), TRUESTEP_ERROR,
                "its type is 7");
    CHECK(optimizer == NULL);
    CHECK_OK(truestep_optimizer_create(problem, NULL, &whole, 1, &optimizer));
    truestep_values view;
    CHECK_FAILS(truestep_optimizer_view(optimizer, TRUESTEP_LOCAL, &view), TRUESTEP_ERROR, "there is no 5");
    CHECK_FAILS(truestep_optimizer_step(optimizer, NULL, 1, 0.01), TRUESTEP_ERROR, "gradient is NULL");
    CHECK_FAILS(truestep_optimizer_step(NULL, &whole, 1, 0.01), TRUESTEP_ERROR, "optimizer is NULL");
    truestep_optimizer_destroy(optimizer);
    truestep_reference* reference = NULL;
    CHECK_OK(truestep_reference_create(problem, &whole, 1, &reference));
    CHECK_FAILS(truestep_reference_view(reference, TRUESTEP_MASK, -1, &view), TRUESTEP_ERROR, "rank is -1");
    CHECK_FAILS(truestep_reference_view(reference, TRUESTEP_MASK, 1, &view), TRUESTEP_ERROR, "rank is 1");
    CHECK_FAILS(truestep_reference_view(reference, -1, 0, &view), TRUESTEP_ERROR, "there is no -1");
    CHECK_FAILS(truestep_reference_view(reference, TRUESTEP_RECONSTRUCTED + 1, 0, &view), TRUESTEP_ERROR,
                "there is no 8");
    CHECK_FAILS(truestep_reference_step(reference, &whole, 1, NAN), TRUESTEP_ERROR, "learning rate is nan");
    CHECK_OK(truestep_reference_step(reference, &whole, 1, 0.01));
    truestep_reference_destroy(reference);
    truestep_problem_destroy(problem);

    CHECK_FAILS(truestep_timeline_start(NULL), TRUESTEP_ERROR, "file is NULL");
    CHECK_FAILS(truestep_timeline_start("/nowhere/at/all.json"), TRUESTEP_ERROR, "/nowhere/at/all.json");
    truestep_timeline_write(); /* without a start it does nothing */

    truestep_exchanges exchanges = {.struct_size = sizeof exchanges, .rank = 3, .size = 3};
    truestep_communicator* communicator = NULL;
    CHECK_FAILS(truestep_communicator_create(&exchanges, &communicator), TRUESTEP_ERROR, "rank is 3 of 3");
    exchanges.rank = 0;
    CHECK_FAILS(truestep_communicator_create(&exchanges, &communicator), TRUESTEP_ERROR, "all three");
    truestep_group* group = NULL;
    CHECK_FAILS(truestep_group_create(0, 1000, &group), TRUESTEP_ERROR, "a group of 0 ranks");
    CHECK_FAILS(truestep_group_create(2, INT64_MAX, &group), TRUESTEP_ERROR, "at most 1000000000000");
    CHECK_OK(truestep_group_create(2, 1000, &group));
    CHECK_FAILS(truestep_group_communicator(group, 2, &communicator), TRUESTEP_ERROR, "rank 2");
    truestep_peers* peers = NULL;
    CHECK_FAILS(truestep_group_peers(NULL, 0, &peers), TRUESTEP_ERROR, "group is NULL");
    truestep_group_destroy(group);
    truestep_optimizer_destroy(NULL);
    truestep_verdict_destroy(NULL);
    CHECK_FAILS(truestep_add_summary("", "{\"traces\": []}"), TRUESTEP_ERROR, "file is empty");
    CHECK_FAILS(truestep_add_summary("written/summary.md", "[]"), TRUESTEP_ERROR, "the list \"traces\"");
    CHECK(strcmp(truestep_verdict_page(NULL), "") == 0);
}

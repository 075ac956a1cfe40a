/* What the C interface says of input that it cannot take. */
#include "support.h"

void bad_input_is_told(void) {
    scape_problem* problem = NULL;
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "beta3=1", &problem), SCAPE_ERROR,
                "'beta3=1' is no setting");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "beta1=1.5", &problem), SCAPE_ERROR, "beta1");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "beta1=much", &problem), SCAPE_ERROR,
                "beta1 is 'much'");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "beta1=0 beta1=0", &problem), SCAPE_ERROR,
                "given twice");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "density=linear:1", &problem), SCAPE_ERROR,
                "linear:1");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "density=2", &problem), SCAPE_ERROR, "density");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 0, "", &problem), SCAPE_ERROR, "workers");
    CHECK_FAILS(scape_problem_create(NULL, 3, 3, "", &problem), SCAPE_ERROR, "tensors is NULL");
    CHECK_FAILS(scape_problem_create(model, TENSORS, 3, "", NULL), SCAPE_ERROR, "problem is NULL");
    const scape_tensor flat = {"flat", SIZE, 1};
    CHECK_FAILS(scape_problem_create(&flat, 1, 3, "density=linear:1:0.25:10", &problem), SCAPE_ERROR,
                "density is 0.25, and every tensor is always dense");
    CHECK(problem == NULL);
    CHECK_OK(scape_problem_create(&flat, 1, 3, "density=1", &problem));
    scape_problem_destroy(problem);

    problem = make_problem(2, "density=geometric:1:0.01:100");
    CHECK(scape_problem_size(problem) == SIZE);
    double density = 0.0;
    CHECK_OK(scape_problem_density(problem, 1, &density));
    CHECK(density == 1.0);
    CHECK_FAILS(scape_problem_density(problem, 0, &density), SCAPE_ERROR, "steps begin at 1");

    float values[SIZE];
    make_parameters(values);
    const scape_values whole = floats(values, SIZE);
    const scape_values wrong[2] = {floats(values, SIZE), floats(values, 1)};
    const scape_values typed = {values, SIZE, 7};
    scape_optimizer* optimizer = NULL;
    CHECK_FAILS(scape_optimizer_create(problem, NULL, &whole, 1, &optimizer), SCAPE_ERROR, "2 workers");
    scape_problem_destroy(problem);
    problem = make_problem(1, "");
    CHECK_FAILS(scape_optimizer_create(problem, NULL, wrong, 2, &optimizer), SCAPE_ERROR,
                "more than 100 values");
    CHECK_FAILS(scape_optimizer_create(problem, NULL, wrong + 1, 1, &optimizer), SCAPE_ERROR,
                "it has 1 values");
    CHECK_FAILS(scape_optimizer_create(problem, NULL, &typed, 1, &optimizer), SCAPE_ERROR, "its type is 7");
    CHECK(optimizer == NULL);
    CHECK_OK(scape_optimizer_create(problem, NULL, &whole, 1, &optimizer));
    scape_values view;
    CHECK_FAILS(scape_optimizer_view(optimizer, SCAPE_LOCAL, &view), SCAPE_ERROR, "there is no 5");
    CHECK_FAILS(scape_optimizer_step(optimizer, NULL, 1, 0.01), SCAPE_ERROR, "gradient is NULL");
    CHECK_FAILS(scape_optimizer_step(NULL, &whole, 1, 0.01), SCAPE_ERROR, "optimizer is NULL");
    scape_optimizer_destroy(optimizer);
    scape_problem_destroy(problem);

    scape_exchanges exchanges = {.struct_size = sizeof exchanges, .rank = 3, .size = 3};
    scape_communicator* communicator = NULL;
    CHECK_FAILS(scape_communicator_create(&exchanges, &communicator), SCAPE_ERROR, "rank is 3 of 3");
    exchanges.rank = 0;
    CHECK_FAILS(scape_communicator_create(&exchanges, &communicator), SCAPE_ERROR, "all three");
    scape_group* group = NULL;
    CHECK_FAILS(scape_group_create(0, 1000, &group), SCAPE_ERROR, "a group of 0 ranks");
    CHECK_OK(scape_group_create(2, 1000, &group));
    CHECK_FAILS(scape_group_communicator(group, 2, &communicator), SCAPE_ERROR, "rank 2");
    scape_group_destroy(group);
    scape_optimizer_destroy(NULL);
    scape_verdict_destroy(NULL);
}

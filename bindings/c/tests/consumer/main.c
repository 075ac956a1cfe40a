#include <math.h>
#include <stdio.h>

#include <truestep.h>

enum { size = 1000 };

static int failed(const char* what) {
    fprintf(stderr, "%s: %s\n", what, truestep_last_error());
    return 1;
}

/* One rank brings a parameter vector to zero: the gradient of |w|^2/2 is w, which is where the optimizer
 * has it. */
int main(void) {
    static float start[size];
    for (int i = 0; i < size; ++i)
        start[i] = 1.0F;
    const truestep_tensor tensors[] = {{"w", 990, 0}, {"norm", 10, 1}};
    const truestep_values parameters = {start, size, TRUESTEP_F32};
    truestep_problem* problem = NULL;
    truestep_optimizer* optimizer = NULL;
    if (truestep_problem_create(tensors, 2, 1, "density=0.1", &problem) != TRUESTEP_OK)
        return failed("problem");
    if (truestep_optimizer_create(problem, NULL, &parameters, 1, &optimizer) != TRUESTEP_OK)
        return failed("optimizer");
    truestep_problem_destroy(problem);

    truestep_values w;
    if (truestep_optimizer_view(optimizer, TRUESTEP_PARAMETERS, &w) != TRUESTEP_OK)
        return failed("view");
    for (int step = 0; step < 400; ++step)
        if (truestep_optimizer_step(optimizer, &w, 1, 0.05) != TRUESTEP_OK)
            return failed("step");
    float left = 0.0F;
    for (int i = 0; i < size; ++i)
        left += fabsf(((const float*)w.data)[i]);
    truestep_optimizer_destroy(optimizer);
    printf("truestep %s, interface %d: mean |w| after 400 steps: %.3f\n", truestep_version(),
           (int)truestep_abi_version(), (double)left / size);
    return left / size < 0.2F ? 0 : 1;
}

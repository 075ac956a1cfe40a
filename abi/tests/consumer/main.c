#include <math.h>
#include <stdio.h>

#include <scape.h>

enum { size = 1000 };

static int failed(const char* what) {
    fprintf(stderr, "%s: %s\n", what, scape_last_error());
    return 1;
}

/* One rank brings a parameter vector to zero: the gradient of |w|^2/2 is w, which is where the optimizer
 * has it. */
int main(void) {
    static float start[size];
    for (int i = 0; i < size; ++i)
        start[i] = 1.0F;
    const scape_tensor tensors[] = {{"w", 990, 0}, {"norm", 10, 1}};
    const scape_values parameters = {start, size, SCAPE_F32};
    scape_problem* problem = NULL;
    scape_optimizer* optimizer = NULL;
    if (scape_problem_create(tensors, 2, 1, "density=0.1", &problem) != SCAPE_OK)
        return failed("problem");
    if (scape_optimizer_create(problem, NULL, &parameters, 1, &optimizer) != SCAPE_OK)
        return failed("optimizer");
    scape_problem_destroy(problem);

    scape_values w;
    if (scape_optimizer_view(optimizer, SCAPE_PARAMETERS, &w) != SCAPE_OK)
        return failed("view");
    for (int step = 0; step < 400; ++step)
        if (scape_optimizer_step(optimizer, &w, 1, 0.05) != SCAPE_OK)
            return failed("step");
    float left = 0.0F;
    for (int i = 0; i < size; ++i)
        left += fabsf(((const float*)w.data)[i]);
    scape_optimizer_destroy(optimizer);
    printf("scape %s, interface %d: mean |w| after 400 steps: %.3f\n", scape_version(),
           (int)scape_abi_version(), (double)left / size);
    return left / size < 0.2F ? 0 : 1;
}

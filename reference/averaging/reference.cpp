// Computes a round of local SGD with averaging: the local steps, then the mean in rank order.
#include <truestep/reference/averaging/reference.hpp>

namespace truestep::reference::averaging {

namespace {

Vector after_local_steps(Vector x, const Gradients& gradients, float learning_rate) {
    for (const Vector& gradient : gradients)
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = x[i] - (learning_rate * gradient[i]);
    return x;
}

} // namespace

Vector after_round(const Vector& parameters, const std::vector<Gradients>& gradients, float learning_rate) {
    // The sum begins with x_0, because beginning with 0 would lose the sign of -0.
    Vector mean = after_local_steps(parameters, gradients.front(), learning_rate);
    for (std::size_t worker = 1; worker < gradients.size(); ++worker) {
        const Vector x = after_local_steps(parameters, gradients[worker], learning_rate);
        for (std::size_t i = 0; i < x.size(); ++i)
            mean[i] = mean[i] + x[i];
    }
    for (float& value : mean)
        value = value / static_cast<float>(gradients.size());
    return mean;
}

} // namespace truestep::reference::averaging

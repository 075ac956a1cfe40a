#include <cmath>
#include <cstdio>
#include <vector>

#include <truestep/optimizer.hpp>

// Two ranks bring a parameter vector to zero: the gradient of |w|^2/2 is w. They take it in two
// micro-batches, the second one in buckets, as it arrives.
int main() {
    double left = 0.0;
    truestep::run_ranks(2, [&](truestep::Communicator& communicator) {
        std::vector<float> start(1000, 1.0F);
        truestep::Settings settings;
        settings.density = truestep::DensitySchedule::constant(0.1);
        const truestep::Layout model({{"w", 990, false}, {"norm", 10, true}});
        auto optimizer = truestep::make_optimizer(model, settings, communicator, start);
        for (int step = 0; step < 400; ++step) {
            std::vector<float> gradient;
            for (const float w : optimizer->parameters())
                gradient.push_back(0.5F * w);
            optimizer->accumulate(gradient);
            for (const auto& tensors : truestep::buckets_of(model, 1024))
                optimizer->bucket(tensors, gradient); // exchanged while the others' are being made
            optimizer->step(gradient, 0.05);
        }
        if (communicator.rank() == 0)
            for (const float w : optimizer->parameters())
                left += std::abs(static_cast<double>(w));
    });
    std::printf("mean |w| after 400 steps: %.3f\n", left / 1000.0);
    return left / 1000.0 < 0.2 ? 0 : 1;
}

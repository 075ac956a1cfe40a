// Compares every tensor's gradient with difference quotients, in double.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/training/draw.hpp>
#include <truestep/training/model.hpp>

#include "passes.hpp"

namespace truestep::training {
namespace {

/// A tiny model and a batch. The model is moved away from its start, where norms are 1 and many
/// values are near 0.
struct Small {
    explicit Small(std::size_t context) : shape{7, context, 6, 2, 2} {
        for (const float value : initial_parameters(shape, 5))
            parameters.push_back(
                static_cast<double>(value) +
                0.3 * (static_cast<double>(drawn({1, parameters.size()}) >> 11U) * 0x1p-53 - 0.5));
        for (std::size_t i = 0; i < 3 * context + 1; ++i)
            text.push_back(static_cast<std::uint8_t>(drawn({2, i}) % shape.symbols));
    }

    [[nodiscard]] Batch batch() const {
        const std::span<const std::uint8_t> all(text);
        return {all.first(text.size() - 1), all.subspan(1)};
    }

    Shape shape;
    std::vector<double> parameters;
    std::vector<std::uint8_t> text;
};

/// Central differences of two widths, combined so that the second-order error cancels.
double difference(Model<double>& model, Small& small, std::size_t index) {
    const double kept = small.parameters[index];
    const auto slope = [&](double width) {
        small.parameters[index] = kept + width;
        const double above = model.loss(small.parameters, small.batch());
        small.parameters[index] = kept - width;
        const double below = model.loss(small.parameters, small.batch());
        small.parameters[index] = kept;
        return (above - below) / (2 * width);
    };
    constexpr double width = 2e-5; // beyond it, the kinks of the second derivative show
    return (4 * slope(width / 2) - slope(width)) / 3;
}

/// The greatest difference in each tensor, relative to the norm of its gradient.
void expect_gradient_of(Small small) {
    Model<double> model(small.shape, 3);
    std::vector<double> gradient(small.parameters.size());
    model.loss_and_gradient(small.parameters, small.batch(), gradient);
    const problem::Layout layout = layout_of(small.shape);
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
        double norm = 0;
        double off = 0;
        for (auto i = layout.begin(tensor); i < layout.end(tensor); ++i) {
            const auto index = static_cast<std::size_t>(i);
            norm = std::hypot(norm, gradient[index]);
            off = std::hypot(off, difference(model, small, index) - gradient[index]);
        }
        EXPECT_GT(norm, 1e-3) << layout.tensors()[tensor].name;
        EXPECT_LT(off, 1e-6 * norm) << layout.tensors()[tensor].name;
    }
}

TEST(ModelGradient, IsTheLossesSlopeInEveryTensor) {
    expect_gradient_of(Small(5));
}

TEST(ModelGradient, IsTheLossesSlopeWhereQueriesAreTakenInSeveralParts) {
    expect_gradient_of(Small(37));
}

/// All instruction sets that this machine can run.
std::vector<std::pair<const char*, const Passes<float>*>> passes_here() {
    std::vector<std::pair<const char*, const Passes<float>*>> here{{"plain", &plain_passes}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
        here.emplace_back("avx2", &avx2_passes);
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0)
        here.emplace_back("avx512", &avx512_passes);
#endif
    return here;
}

// In every instruction set, the float gradient equals that in double up to rounding.
TEST(ModelGradient, InFloatIsThatInDouble) {
    const Small small(37);
    const std::vector<float> parameters(small.parameters.begin(), small.parameters.end());
    Model<double> exact(small.shape, 3);
    std::vector<double> expected(parameters.size());
    const std::vector<double> same(parameters.begin(), parameters.end());
    const double right = exact.loss_and_gradient(same, small.batch(), expected);
    const Sizes sizes{7, 37, 6, 2, 2, 3};
    for (const auto& [name, passes] : passes_here()) {
        // Aligned to 64 bytes, as in Model.
        std::vector<float> memory(passes->room(sizes) + 16);
        void* room = memory.data();
        std::size_t space = memory.size() * sizeof(float);
        ASSERT_NE(std::align(64, passes->room(sizes) * sizeof(float), room, space), nullptr);
        std::vector<float> gradient(parameters.size());
        const double loss = passes->loss_and_gradient(sizes, parameters.data(), small.batch().inputs.data(),
                                                      small.batch().targets.data(), gradient.data(),
                                                      static_cast<float*>(room), nullptr);
        EXPECT_NEAR(loss, right, 1e-6) << name;
        double norm = 0;
        double off = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            norm = std::hypot(norm, expected[i]);
            off = std::hypot(off, static_cast<double>(gradient[i]) - expected[i]);
        }
        EXPECT_LT(off, 2e-6 * norm) << name;
    }
}

} // namespace
} // namespace truestep::training

// Tests the benchmarks' algorithms in their host form, and the check that a device has to pass
// before it is timed.
#include <bit>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gpu/scape/block_backend.hpp>

#include "gpu/algorithms.hpp"
#include "gpu/dense.hpp"

namespace truestep::gpu::bench {
namespace {

/// Runs blocks one after the other, with threads in shuffled order.
template <class Algorithm>
void run(Index size, const typename Algorithm::Arguments& arguments) {
    static ThreadOrders orders(64, 7);
    typename Algorithm::Shared shared;
    for (Index index = 0; index < (size + tile - 1) / tile; ++index) {
        HostBlock block(index, orders);
        Algorithm::run(block, shared, arguments);
    }
}

/// Takes every step in memory that begins `offset` floats off 16 bytes.
std::vector<float> take(const DenseSteps& steps, std::size_t offset, float error) {
    const std::size_t count = steps.parameters.size();
    const auto size = static_cast<Index>(count);
    std::vector<Quad> memory((count + offset) / 4 * 4 + 8);
    auto* const w = reinterpret_cast<float*>(memory.data()) + offset;
    std::copy(steps.parameters.begin(), steps.parameters.end(), w);
    std::vector<float> m(count, 0.0F);
    std::vector<float> v(count, 0.0F);
    for (std::size_t step = 0; step < steps.gradients.size(); ++step) {
        distributed::Scalars scalars = steps.scalars[step];
        scalars.epsilon += error;
        if (steps.kind == Dense::adams)
            run<AdamS>(size, {scalars, size, steps.gradients[step].data(), w, m.data()});
        else
            run<AdamW>(size, {scalars, size, steps.gradients[step].data(), w, m.data(), v.data()});
    }
    return {w, w + count};
}

TEST(DenseSteps, HaveTheBitsOfTheHostsOwn) {
    for (const Dense kind : {Dense::adams, Dense::adamw})
        for (const Index size : {Index{1}, Index{4095}, 3 * tile + 5})
            for (const std::size_t offset : {0U, 1U}) {
                EXPECT_EQ(wrong_parameters(kind, size,
                                           [&](const DenseSteps& s) { return take(s, offset, 0.0F); }),
                          0);
            }
}

TEST(DenseSteps, WrongOnesAreCounted) {
    constexpr Index size = 5000;
    for (const Dense kind : {Dense::adams, Dense::adamw}) {
        EXPECT_GT(wrong_parameters(kind, size, [](const DenseSteps& s) { return take(s, 0, 1e-3F); }),
                  size / 2);
        EXPECT_EQ(wrong_parameters(kind, size,
                                   [](const DenseSteps& s) {
                                       auto w = take(s, 0, 0.0F);
                                       w[7] = -w[7];
                                       return w;
                                   }),
                  1);
        EXPECT_EQ(wrong_parameters(kind, size,
                                   [](const DenseSteps& s) {
                                       auto w = take(s, 0, 0.0F);
                                       w.pop_back();
                                       return w;
                                   }),
                  1);
    }
}

TEST(Fill, DependsOnSeedAndIndexAndLooksNormal) {
    constexpr Index size = 3 * tile + 7;
    std::vector<float> values(static_cast<std::size_t>(size) + 1, 5.0F);
    run<Fill>(size, {3, size, values.data()});
    EXPECT_EQ(values.back(), 5.0F) << "beyond the end";
    values.pop_back();
    double sum = 0.0;
    double squares = 0.0;
    std::set<std::uint32_t> bits;
    for (Index i = 0; i < size; ++i) {
        const float value = values[static_cast<std::size_t>(i)];
        EXPECT_EQ(value, counter_value(3, i));
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
        bits.insert(std::bit_cast<std::uint32_t>(value));
    }
    EXPECT_NEAR(sum / size, 0.0, 0.05);
    EXPECT_NEAR(squares / size, 1.0, 0.1);
    EXPECT_GT(bits.size(), values.size() * 9 / 10);
    EXPECT_NE(counter_value(4, 0), counter_value(3, 0));
}

TEST(Read, SeesEveryValue) {
    constexpr Index size = 2 * tile + 3;
    const std::uint32_t never = 0x7fff'ffffU;
    std::vector<float> values(static_cast<std::size_t>(size), 1.0F);
    std::uint32_t seen = 0;
    run<Read>(size, {size, values.data(), never, &seen});
    EXPECT_EQ(seen, 0U);
    for (const std::size_t at : {std::size_t{0}, values.size() - 1, std::size_t{tile}}) {
        values[at] = std::bit_cast<float>(never);
        run<Read>(size, {size, values.data(), never, &seen});
        EXPECT_EQ(std::exchange(seen, 0U), 1U) << at;
        values[at] = 1.0F;
    }
}

} // namespace
} // namespace truestep::gpu::bench

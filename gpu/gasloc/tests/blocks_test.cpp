// Compares the passes over blocks with the host's, in every bit.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/kernels.hpp>

#include "algorithms/meeting.hpp"
#include "machine.hpp"

namespace truestep::gpu::gasloc {
namespace {

namespace host = distributed::host;
using Floats = std::vector<float>;

std::vector<std::uint32_t> bits(const float* values, Index size) {
    std::vector<std::uint32_t> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(std::bit_cast<std::uint32_t>(values[i]));
    return result;
}

/// Ordinary values, zeros of both signs, subnormals and large values. `shift` moves the begin off a
/// multiple of 16 bytes.
class Values {
  public:
    Values(std::mt19937_64& random, Index size, Index shift, bool negative = true)
        : size_(size), memory_(static_cast<std::size_t>(size + 8), -7.0F) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float);
        begin_ = memory_.data() + (4 - address % 4) % 4 + shift;
        std::normal_distribution<float> normal(0.0F, 1.0F);
        constexpr float special[]{0.0F, 0x1p-149F, 0x1.8p-140F, 0x1p-126F, 0x1p56F, 1e10F, 3.0e-39F, 1.0F};
        for (Index i = 0; i < size; ++i) {
            const float value = random() % 2 == 0 ? normal(random) : special[random() % 8];
            begin_[i] = negative && random() % 2 == 0 ? -value : std::abs(value);
        }
    }
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    [[nodiscard]] float* data() { return begin_; }
    [[nodiscard]] Floats copy() const { return {begin_, begin_ + size_}; }
    /// Whether the values behind the end are unchanged.
    [[nodiscard]] bool end_untouched() const {
        return &begin_[size_] == memory_.data() + memory_.size() || begin_[size_] == -7.0F;
    }

  private:
    Index size_;
    Floats memory_;
    float* begin_ = nullptr;
};

constexpr InnerRule rules[]{InnerRule::sgd, InnerRule::adams, InnerRule::adams_momentum, InnerRule::adamw};

distributed::Scalars some_scalars() {
    distributed::Scalars s;
    s.b1 = 0.9F;
    s.a1 = 0.1F;
    s.b2 = 0.95F;
    s.a2 = 0.05F;
    s.epsilon = 1e-8F;
    s.learning_rate = 0.01F;
    s.decay = 0.999F;
    s.inv1 = 1.7F;
    s.invs2 = 1.3F;
    return s;
}

Index tiles_of(Index size) {
    return (size + tile - 1) / tile;
}

/// Runs the step; returns whether it found all gradients finite.
bool run_inner(Machine& machine, InnerRule rule, InnerArguments arguments) {
    std::uint32_t not_finite = 0;
    arguments.not_finite = &not_finite;
    const Index blocks = tiles_of(arguments.size);
    if (rule == InnerRule::sgd)
        machine.run<SgdStep>(blocks, arguments);
    if (rule == InnerRule::adams)
        machine.run<AdamSStep>(blocks, arguments);
    if (rule == InnerRule::adams_momentum)
        machine.run<AdamSMomentumStep>(blocks, arguments);
    if (rule == InnerRule::adamw)
        machine.run<AdamWStep>(blocks, arguments);
    return not_finite == 0;
}

struct Launch {
    int threads;
    std::uint64_t seed;
    Index shift; ///< where vectors begin
};

class Blocks : public testing::TestWithParam<Launch> {
  protected:
    std::mt19937_64 random{11}; // NOLINT: the same numbers at each run
    Machine machine{GetParam().threads, GetParam().seed};
};
std::string way_name(const testing::TestParamInfo<Launch>& info) {
    return std::to_string(info.param.threads) + "threads_" + std::to_string(info.param.shift) + "behind";
}
INSTANTIATE_TEST_SUITE_P(Ways, Blocks,
                         testing::Values(Launch{256, 1, 0}, Launch{32, 2, 0}, Launch{1024, 3, 1}),
                         way_name);

TEST_P(Blocks, InnerStepsAreTheHosts) {
    const distributed::Scalars s = some_scalars();
    for (const InnerRule rule : rules)
        for (const Index size : sizes)
            for (const bool in_place : {false, true}) {
                const Index shift = GetParam().shift;
                Values g(random, size, shift);
                Values x(random, size, shift);
                Values m(random, size, shift);
                Values v(random, size, shift, false);
                Values x_to(random, size, shift);
                Values m_to(random, size, shift);
                Values v_to(random, size, shift);
                Floats right_x = x.copy(), right_m = m.copy(), right_v = v.copy();
                ASSERT_TRUE(host::inner(rule, s, 0, size,
                                        {g.data(), right_x.data(), right_m.data(), right_v.data(),
                                         right_x.data(), right_m.data(), right_v.data()}));
                Values& to_x = in_place ? x : x_to;
                Values& to_m = in_place ? m : m_to;
                Values& to_v = in_place ? v : v_to;
                const Floats kept = x.copy();
                EXPECT_TRUE(run_inner(machine, rule,
                                      {s, size, g.data(), x.data(), m.data(), v.data(), to_x.data(),
                                       to_m.data(), to_v.data(), nullptr}));
                const std::string what =
                    "rule " + std::to_string(static_cast<int>(rule)) + ", size " + std::to_string(size);
                EXPECT_EQ(bits(to_x.data(), size), bits(right_x.data(), size)) << what;
                EXPECT_TRUE(to_x.end_untouched() && to_m.end_untouched() && to_v.end_untouched()) << what;
                if (rule != InnerRule::sgd) {
                    EXPECT_EQ(bits(to_m.data(), size), bits(right_m.data(), size)) << what;
                }
                if (rule == InnerRule::adamw) {
                    EXPECT_EQ(bits(to_v.data(), size), bits(right_v.data(), size)) << what;
                }
                if (!in_place) {
                    EXPECT_EQ(bits(x.data(), size), bits(kept.data(), size)) << what;
                }
            }
}

TEST_P(Blocks, AGradientThatIsNotFiniteIsTold) {
    for (const InnerRule rule : rules)
        for (const float bad :
             {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
              std::numeric_limits<float>::quiet_NaN()})
            for (const Index at : {Index{0}, Index{3}, Index{4096}, Index{9999}, Index{10'000}}) {
                constexpr Index size = 10'001;
                Values g(random, size, GetParam().shift);
                Values x(random, size, 0);
                Values m(random, size, 0);
                Values v(random, size, 0, false);
                const InnerArguments arguments{some_scalars(), size,     g.data(), x.data(), m.data(),
                                               v.data(),       x.data(), m.data(), v.data(), nullptr};
                g.data()[at] = std::numeric_limits<float>::max();
                EXPECT_TRUE(run_inner(machine, rule, arguments)) << at;
                g.data()[at] = bad;
                EXPECT_FALSE(run_inner(machine, rule, arguments)) << at;
            }
}

TEST_P(Blocks, DriftIsTheHosts) {
    for (const Index size : sizes)
        for (const bool drifts : {true, false}) {
            Values theta(random, size, GetParam().shift);
            Values x(random, size, GetParam().shift);
            Floats right = drifts ? x.copy() : theta.copy();
            if (drifts)
                host::drift(0.7F, 0, size, theta.data(), right.data());
            machine.run<Drift>(tiles_of(size), {size, drifts, 0.7F, theta.data(), x.data()});
            EXPECT_EQ(bits(x.data(), size), bits(right.data(), size)) << size;
            EXPECT_TRUE(x.end_untouched());
        }
}

TEST_P(Blocks, GossipAndMomentumAreTheHosts) {
    for (const std::size_t neighbours : {0U, 1U, 2U, 5U})
        for (const float gamma : {0.0F, 0.6F})
            for (const bool of_gossiped : {false, true})
                for (const Index size : sizes) {
                    Values y(random, size, 0);
                    Values before(random, size, 0);
                    Values theta(random, size, GetParam().shift);
                    std::vector<std::unique_ptr<Values>> others;
                    std::vector<NeighbourVector> met;
                    for (std::size_t k = 0; k < neighbours; ++k) {
                        others.push_back(std::make_unique<Values>(random, size, GetParam().shift));
                        met.push_back({others[k]->data(), 0.25F + static_cast<float>(k)});
                    }
                    Floats right(static_cast<std::size_t>(size));
                    Floats right_before = before.copy();
                    const distributed::Gossip with{met, 0.3F, gamma, gamma != 0.0F, of_gossiped};
                    const bool right_finite =
                        host::gossip(with, 0, size, y.data(), right_before.data(), right.data());
                    std::uint32_t not_finite = 0;
                    machine.run<Meet>(tiles_of(size), {size, met.data(), static_cast<Index>(neighbours),
                                                       with.a, gamma, with.carries, of_gossiped, y.data(),
                                                       before.data(), theta.data(), &not_finite});
                    EXPECT_EQ(bits(theta.data(), size), bits(right.data(), size))
                        << neighbours << " " << gamma << " " << size;
                    EXPECT_EQ(bits(before.data(), size), bits(right_before.data(), size));
                    EXPECT_EQ(not_finite == 0, right_finite);
                    EXPECT_TRUE(theta.end_untouched() && before.end_untouched());
                }
}

TEST_P(Blocks, AModelThatIsNotFiniteIsTold) {
    for (const Index at : {Index{0}, Index{4097}, Index{10'000}}) {
        constexpr Index size = 10'001;
        Values y(random, size, 0);
        Values before(random, size, 0);
        Values theta(random, size, GetParam().shift);
        std::uint32_t not_finite = 0;
        MeetArguments arguments{size,          nullptr,      0,          0.0F, 0.0F, false, false, y.data(),
                                before.data(), theta.data(), &not_finite};
        machine.run<Meet>(tiles_of(size), arguments);
        EXPECT_EQ(not_finite, 0U);
        y.data()[at] = std::numeric_limits<float>::quiet_NaN();
        machine.run<Meet>(tiles_of(size), arguments);
        EXPECT_NE(not_finite, 0U) << at;
    }
}

} // namespace
} // namespace truestep::gpu::gasloc

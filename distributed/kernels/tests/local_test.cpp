#include <truestep/distributed/kernels.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_support.hpp"

// Compares the passes of local.hpp with their definition, coordinate by coordinate, in every bit.

namespace truestep::distributed::host {
namespace {

std::string variant_name(const ::testing::TestParamInfo<Variant>& info) {
    return std::string(name(info.param));
}

class LocalTest : public ::testing::TestWithParam<Variant> {
  protected:
    void SetUp() override { use_variant(GetParam()); }
    void TearDown() override { use_variant(supported_variants().back()); }

    std::mt19937_64 generator{7}; // NOLINT: the same numbers at each run
};
INSTANTIATE_TEST_SUITE_P(Variants, LocalTest, ::testing::ValuesIn(supported_variants()), variant_name);

constexpr Index sizes[]{0, 1, 15, 16, 17, 63, 255, 256, 257, 1000};

Scalars some_scalars() {
    Scalars s;
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

std::vector<float> not_negative(std::vector<float> values) {
    for (float& value : values)
        value = std::abs(value);
    return values;
}

TEST_P(LocalTest, InnerSteps) {
    const Scalars s = some_scalars();
    for (const InnerRule rule :
         {InnerRule::sgd, InnerRule::adams, InnerRule::adams_momentum, InnerRule::adamw})
        for (const Index size : sizes)
            for (const bool in_place : {false, true}) {
                const Guarded g(values(generator, size));
                Guarded x(values(generator, size));
                Guarded m(values(generator, size));
                Guarded v(not_negative(values(generator, size)));
                std::vector<float> right_x, right_m, right_v;
                for (Index i = 0; i < size; ++i) {
                    const float moment = element::moment(s, m.data()[i], g.data()[i]);
                    const float square = element::second_moment(s, v.data()[i], g.data()[i]);
                    const float u = rule == InnerRule::sgd ? g.data()[i]
                                    : rule == InnerRule::adams
                                        ? element::direction_adam(s, moment, m.data()[i], g.data()[i])
                                    : rule == InnerRule::adams_momentum
                                        ? element::direction_momentum(s, moment, m.data()[i], g.data()[i])
                                        : element::direction_adamw(s, moment, square);
                    right_x.push_back(element::update(s, x.data()[i] * s.decay, u));
                    right_m.push_back(moment);
                    right_v.push_back(square);
                }
                Guarded x_to(size), m_to(size), v_to(size);
                Guarded& to_x = in_place ? x : x_to;
                Guarded& to_m = in_place ? m : m_to;
                Guarded& to_v = in_place ? v : v_to;
                const bool adaptive = rule != InnerRule::sgd;
                const bool stored = rule == InnerRule::adamw;
                const InnerStep step{g.data(),
                                     x.data(),
                                     adaptive ? m.data() : nullptr,
                                     stored ? v.data() : nullptr,
                                     to_x.data(),
                                     adaptive ? to_m.data() : nullptr,
                                     stored ? to_v.data() : nullptr};
                const Index middle = size / 32 * 16;
                EXPECT_TRUE(inner(rule, s, middle, size, step));
                EXPECT_TRUE(inner(rule, s, 0, middle, step));
                EXPECT_EQ(bits(to_x), bits(right_x)) << static_cast<int>(rule) << " " << size;
                if (adaptive) {
                    EXPECT_EQ(bits(to_m), bits(right_m)) << static_cast<int>(rule) << " " << size;
                }
                if (stored) {
                    EXPECT_EQ(bits(to_v), bits(right_v)) << size;
                }
            }
}

TEST_P(LocalTest, AGradientThatIsNotFiniteIsTold) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
        for (const Index at : {0, 16, 300, 511}) {
            std::vector<float> g(512, 1.0F);
            std::vector<float> x(512, 1.0F);
            const InnerStep step{g.data(), x.data(), nullptr, nullptr, x.data(), nullptr, nullptr};
            EXPECT_TRUE(inner(InnerRule::sgd, some_scalars(), 0, 512, step));
            g[static_cast<std::size_t>(at)] = bad;
            EXPECT_FALSE(inner(InnerRule::sgd, some_scalars(), 0, 512, step)) << at;
            EXPECT_EQ(inner(InnerRule::sgd, some_scalars(), 0, at, step), true) << "before it";
        }
}

TEST_P(LocalTest, Drift) {
    for (const Index size : sizes) {
        const Guarded theta(values(generator, size));
        Guarded x(values(generator, size));
        std::vector<float> right;
        for (Index i = 0; i < size; ++i)
            right.push_back(element::drift(0.7F, theta.data()[i], x.data()[i]));
        drift(0.7F, 0, size, theta.data(), x.data());
        EXPECT_EQ(bits(x), bits(right)) << size;
    }
}

TEST_P(LocalTest, GossipAndMomentum) {
    for (const std::size_t neighbours : {0U, 1U, 2U, 5U})
        for (const float gamma : {0.0F, 0.6F})
            for (const bool of_gossiped : {false, true})
                for (const Index size : sizes) {
                    const Guarded y(values(generator, size));
                    Guarded before(values(generator, size));
                    Guarded theta(size);
                    std::vector<std::vector<float>> others;
                    std::vector<NeighbourVector> met;
                    for (std::size_t k = 0; k < neighbours; ++k)
                        others.push_back(values(generator, size));
                    for (std::size_t k = 0; k < neighbours; ++k)
                        met.push_back({others[k].data(), 0.25F + static_cast<float>(k)});
                    std::vector<float> right, right_before = {before.data(), before.data() + size};
                    for (Index i = 0; i < size; ++i) {
                        float acc = 0.0F;
                        for (const NeighbourVector& one : met)
                            acc = element::pull(acc, one.lambda, y.data()[i], one.y[i]);
                        const float z =
                            met.empty() ? y.data()[i] : element::gossiped(0.3F, y.data()[i], acc);
                        const float moves = of_gossiped ? z : y.data()[i];
                        right.push_back(
                            gamma == 0.0F ? z : element::carried(gamma, z, moves, before.data()[i]));
                        if (of_gossiped)
                            right_before[static_cast<std::size_t>(i)] = z;
                    }
                    const Gossip with{met, 0.3F, gamma, gamma != 0.0F, of_gossiped};
                    static_cast<void>(gossip(with, 0, size, y.data(), before.data(), theta.data()));
                    EXPECT_EQ(bits(theta), bits(right)) << neighbours << " " << gamma << " " << size;
                    EXPECT_EQ(bits(before), bits(right_before))
                        << neighbours << " " << gamma << " " << size;
                }
}

TEST_P(LocalTest, AModelThatIsNotFiniteIsTold) {
    std::vector<float> y(300, 1.0F), before(300, 1.0F), theta(300);
    const Gossip alone{};
    EXPECT_TRUE(gossip(alone, 0, 300, y.data(), before.data(), theta.data()));
    y[299] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(gossip(alone, 0, 300, y.data(), before.data(), theta.data()));
    EXPECT_TRUE(gossip(alone, 0, 299, y.data(), before.data(), theta.data()));
}

} // namespace
} // namespace truestep::distributed::host

// Tests the passes of every instruction set against their formulas for one coordinate.
#include <truestep/distributed/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "passes.hpp"
#include "table.hpp"

namespace truestep::distributed::host {
namespace {

/// Masks, and vectors packed on them, of one size.
struct Case {
    Case(std::mt19937_64& generator, Index size, double last_density, double density)
        : last(random_mask(generator, size, last_density)), current(random_mask(generator, size, density)),
          g(values(generator, size)), e(values(generator, size)), m(values(generator, last.selected())),
          u(values(generator, current.selected())) {}

    Mask last;
    Mask current;
    std::vector<float> g;
    std::vector<float> e;
    std::vector<float> m;
    std::vector<float> u;
};

template <class Test>
void for_cases(const Test& test) {
    std::mt19937_64 generator(5);
    for (const Index size : sizes)
        for (const double last_density : densities)
            for (const double density : densities) {
                SCOPED_TRACE(::testing::Message()
                             << "size " << size << ", densities " << last_density << " and " << density);
                test(generator, Case(generator, size, last_density, density));
            }
}

INSTANTIATE_TEST_SUITE_P(Variants, KernelTest, ::testing::ValuesIn(supported_variants()), variant_name);

TEST(VariantTest, ThePlainOneIsEverywhereAndTheBestInUse) {
    ASSERT_FALSE(supported_variants().empty());
    EXPECT_EQ(supported_variants().front(), Variant::plain);
    EXPECT_EQ(variant_for(nullptr), supported_variants().back());
    EXPECT_EQ(name(Variant::plain), "plain");
    EXPECT_EQ(name(Variant::avx2), "avx2");
    EXPECT_EQ(name(Variant::avx512), "avx512");
    EXPECT_EQ(name(Variant::neon), "neon");
    EXPECT_EQ(name(static_cast<Variant>(9)), "unknown");
    EXPECT_THROW(use_variant(static_cast<Variant>(9)), std::invalid_argument);
}

/// In a process of its own, because one is chosen once.
TEST(VariantDeathTest, TheEnvironmentNamesOne) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    constexpr const char* named = "TRUESTEP_KERNELS";
    const char* const given = std::getenv(named);
    const std::string before = given == nullptr ? "" : given;
    for (const Variant asked : supported_variants()) {
        setenv(named, std::string(name(asked)).c_str(), 1);
        EXPECT_EXIT(std::exit(variant() == asked ? 7 : 1), ::testing::ExitedWithCode(7), "");
    }
    given == nullptr ? unsetenv(named) : setenv(named, before.c_str(), 1);
    EXPECT_THROW(static_cast<void>(variant_for("fastest")), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(variant_for("")), std::invalid_argument);
}

/// Compares with the instruction sets that the operating system reports. A machine that loses its
/// fastest kernels would test fewer, and pass.
TEST(VariantTest, NoneIsMissingThatThisMachineHas) {
    std::vector<Variant> expected{Variant::plain};
#if defined(__aarch64__)
    expected.push_back(Variant::neon);
#endif
#if !defined(__x86_64__)
    // An emulator shows the flags of the machine that it runs on.
    EXPECT_EQ(supported_variants(), expected);
    return;
#endif
    std::ifstream file("/proc/cpuinfo");
    std::set<std::string> flags;
    for (std::string line; flags.empty() && std::getline(file, line);)
        if (line.starts_with("flags")) {
            std::istringstream words(line);
            for (std::string word; words >> word;)
                flags.insert(word);
        }
    if (flags.empty())
        GTEST_SKIP() << "/proc/cpuinfo has no flags: no Linux";
    const auto has = [&](const std::vector<std::string>& all) {
        return std::ranges::all_of(all, [&](const std::string& flag) { return flags.contains(flag); });
    };
    if (has({"avx2", "bmi1", "popcnt"})) {
        expected.push_back(Variant::avx2);
        if (has({"avx512f", "avx512vl", "avx512bw", "avx512dq", "bmi2"}))
            expected.push_back(Variant::avx512);
    }
    EXPECT_EQ(supported_variants(), expected);
}

TEST_P(KernelTest, FirstUnacceptableIsTheFirst) {
    std::mt19937_64 generator(1);
    for (const Index size : sizes) {
        const std::vector<float> good = values(generator, size);
        EXPECT_EQ(first_unacceptable(Guarded(good).data(), 0, size), size);
        for (const float bad :
             {not_a_number, -not_a_number, infinity, -infinity, 0x1.000002p56F, -0x1.000002p56F})
            for (const Index at : {Index{0}, size / 2, size - 1})
                if (at >= 0 && at < size) {
                    Guarded g(good);
                    g.data()[at] = bad;
                    g.data()[size - 1] = not_a_number;
                    EXPECT_EQ(first_unacceptable(g.data(), 0, size), at);
                    EXPECT_EQ(first_unacceptable(g.data(), 0, at), at);
                    EXPECT_EQ(first_unacceptable(g.data(), at + 1, size), at + 1 < size ? size - 1 : size);
                }
    }
}

TEST_P(KernelTest, LocalPass) {
    for (const float b1 : {0.9F, 0.0F})
        for_cases([b1](std::mt19937_64&, const Case& input) {
            Scalars s = scalars();
            s.b1 = b1;
            s.a1 = 1.0F - b1;
            std::vector<float> e = input.e;
            std::vector<float> payload;
            std::size_t at_m = 0;
            for (Index i = 0; i < input.last.size(); ++i) {
                const auto at = static_cast<std::size_t>(i);
                const float m = input.last.test(i) ? input.m[at_m++] : 0.0F;
                const float c = element::local(s, m, input.g[at], e[at]);
                e[at] = input.current.test(i) ? 0.0F : c;
                if (input.current.test(i))
                    payload.push_back(c);
            }
            for (const Pieces& pieces : splits(input.last.size(), Mask::chunk)) {
                const Guarded g(input.g);
                const Guarded m(input.m);
                Guarded residual(input.e);
                Guarded packed(input.current.selected());
                for (const auto& [begin, end] : pieces)
                    EXPECT_EQ(local_pass(s, begin, end,
                                         {g.data(), residual.data(), residual.data(), input.last, m.data(),
                                          input.current, packed.data()}),
                              end);
                ASSERT_EQ(bits(residual), bits(e));
                ASSERT_EQ(bits(packed), bits(payload));
            }
        });
}

/// The residual in the gradient's memory: e does not change, and a refused gradient is reported
/// before it is overwritten.
TEST_P(KernelTest, LocalPassOverTheGradient) {
    for_cases([](std::mt19937_64& generator, const Case& input) {
        const Scalars s = scalars();
        const Index size = input.last.size();
        const Guarded m(input.m);
        Guarded expected(input.e);
        Guarded expected_payload(input.current.selected());
        EXPECT_EQ(local_pass(s, 0, size,
                             {Guarded(input.g).data(), expected.data(), expected.data(), input.last,
                              m.data(), input.current, expected_payload.data()}),
                  size);
        const Guarded e(input.e);
        for (const Pieces& pieces : splits(size, Mask::chunk)) {
            Guarded g(input.g);
            Guarded payload(input.current.selected());
            for (const auto& [begin, end] : pieces)
                ASSERT_EQ(local_pass(s, begin, end,
                                     {g.data(),
                                      e.data(),
                                      g.data(),
                                      input.last,
                                      m.data(),
                                      input.current,
                                      payload.data(),
                                      {},
                                      true}),
                          end);
            ASSERT_EQ(bits(g), bits(expected));
            ASSERT_EQ(bits(payload), bits(expected_payload));
            ASSERT_EQ(bits(e), bits(input.e));
        }
        if (size == 0)
            return;
        for (const float bad : {not_a_number, -infinity, 0x1.000002p56F}) {
            Guarded g(input.g);
            Guarded payload(input.current.selected());
            const auto at = static_cast<Index>(generator() % static_cast<std::uint64_t>(size));
            g.data()[at] = bad;
            g.data()[size - 1] = bad;
            ASSERT_EQ(local_pass(s, 0, size,
                                 {g.data(),
                                  e.data(),
                                  g.data(),
                                  input.last,
                                  m.data(),
                                  input.current,
                                  payload.data(),
                                  {},
                                  true}),
                      at);
            ASSERT_EQ(std::bit_cast<std::uint32_t>(g.data()[at]), std::bit_cast<std::uint32_t>(bad));
            ASSERT_EQ(bits(e), bits(input.e));
        }
    });
}

TEST_P(KernelTest, LocalPassKeepsTheSignOfZero) {
    constexpr Index size = 200;
    const Mask empty(size);
    Mask full(size);
    full.set_range(0, size);
    full.count();
    const std::vector<float> negative(size, -0.0F);
    Guarded e(negative);
    const Guarded g(negative);
    Guarded none(0);
    // (+0 + -0) + -0: the term of the absent m decides the sign.
    EXPECT_EQ(local_pass(scalars(), 0, size,
                         {g.data(), e.data(), e.data(), empty, none.data(), empty, none.data()}),
              size);
    EXPECT_EQ(bits(e), std::vector<std::uint32_t>(size, 0));
    Guarded below(negative);
    Guarded payload(size);
    EXPECT_EQ(local_pass(scalars(), 0, size,
                         {g.data(), below.data(), below.data(), full, g.data(), full, payload.data()}),
              size);
    EXPECT_EQ(bits(payload), bits(negative));
    EXPECT_EQ(bits(below), std::vector<std::uint32_t>(size, 0));
}

TEST_P(KernelTest, LocalPassDoesNotContract) {
    // Each product is rounded by itself; fused with the addition it would not be.
    constexpr Index size = 64;
    Scalars s;
    s.b1 = 1.0F + 0x1p-12F;
    s.a1 = s.b1;
    const float x = 1.0F + 0x1p-12F;
    const float rounded = s.b1 * x;
    ASSERT_NE(std::fma(s.b1, x, -rounded), 0.0F);
    Mask full(size);
    full.set_range(0, size);
    full.count();
    const Guarded ones(std::vector<float>(size, x));
    Guarded e(std::vector<float>(size, 0.0F));
    Guarded payload(size);
    const Guarded opposite(std::vector<float>(size, -x));
    EXPECT_EQ(local_pass(s, 0, size,
                         {ones.data(), e.data(), e.data(), full, opposite.data(), full, payload.data()}),
              size);
    EXPECT_EQ(bits(payload), std::vector<std::uint32_t>(size, 0));
}

TEST_P(KernelTest, Extract) {
    for_cases([](std::mt19937_64&, const Case& input) {
        std::vector<float> e = input.e;
        std::vector<float> payload;
        for (const Index i : coordinates(input.current)) {
            payload.push_back(e[static_cast<std::size_t>(i)]);
            e[static_cast<std::size_t>(i)] = 0.0F;
        }
        for (const Pieces& pieces : splits(input.last.size(), Mask::chunk)) {
            Guarded residual(input.e);
            Guarded packed(input.current.selected());
            for (const auto& [begin, end] : pieces)
                extract(begin, end, residual.data(), input.current, packed.data());
            ASSERT_EQ(bits(residual), bits(e));
            ASSERT_EQ(bits(packed), bits(payload));
        }
    });
}

TEST_P(KernelTest, Repack) {
    for_cases([](std::mt19937_64&, const Case& input) {
        std::vector<float> flat(static_cast<std::size_t>(input.last.size()), 0.0F);
        std::size_t at = 0;
        for (const Index i : coordinates(input.last))
            flat[static_cast<std::size_t>(i)] = input.m[at++];
        std::vector<float> expected;
        for (const Index i : coordinates(input.current))
            expected.push_back(flat[static_cast<std::size_t>(i)]);
        for (const Pieces& pieces : splits(input.last.size(), Mask::chunk)) {
            const Guarded m(input.m);
            Guarded result(input.current.selected());
            for (const auto& [begin, end] : pieces)
                repack(begin, end, input.last, m.data() + input.last.offset_of_chunk(begin), input.current,
                       result.data() + input.current.offset_of_chunk(begin));
            ASSERT_EQ(bits(result), bits(expected));
        }
    });
}

TEST_P(KernelTest, Update) {
    for (const float decay : {0.9999F, 1.0F})
        for_cases([decay](std::mt19937_64&, const Case& input) {
            Scalars s = scalars();
            s.decay = decay;
            std::vector<float> w = input.e;
            for (float& value : w)
                value = value * decay;
            std::size_t at = 0;
            for (const Index i : coordinates(input.current)) {
                float& value = w[static_cast<std::size_t>(i)];
                value = element::update(s, value, input.u[at++]);
            }
            for (const Pieces& pieces : splits(input.last.size(), Mask::chunk)) {
                const Guarded u(input.u);
                Guarded parameters(input.e);
                for (const auto& [begin, end] : pieces)
                    ASSERT_TRUE(update(s, begin, end, parameters.data(), input.current,
                                       u.data() + input.current.offset_of_chunk(begin)));
                ASSERT_EQ(bits(parameters), bits(w));
            }
        });
}

TEST_P(KernelTest, UpdateTellsThatAParameterHasTurnedNonFinite) {
    for (const Index size : {1, 16, 63, 64, 100, 4097})
        for (const Index at : {Index{0}, size / 2, size - 1})
            for (const float decay : {0.9999F, 1.0F})
                for (const float bad :
                     {not_a_number, -not_a_number, infinity, -infinity, -0x1.fffffep127F}) {
                    Scalars s = scalars();
                    s.decay = decay;
                    s.learning_rate = 1.0F;
                    Mask current(size);
                    current.set(at);
                    current.count();
                    const Guarded u(std::vector<float>{bad});
                    // The largest float less the opposite of it overflows.
                    Guarded w(std::vector<float>(static_cast<std::size_t>(size), 0x1.fffffep127F));
                    EXPECT_FALSE(update(s, 0, size, w.data(), current, u.data()));
                    const Guarded good(std::vector<float>{1.0F});
                    Guarded finite(std::vector<float>(static_cast<std::size_t>(size), 1.0F));
                    EXPECT_TRUE(update(s, 0, size, finite.data(), current, good.data()));
                }
    // Off the mask an absurd decay overflows, too.
    for (const Index size : {1, 64, 100}) {
        Scalars s = scalars();
        s.decay = -0x1p100F;
        Guarded w(std::vector<float>(static_cast<std::size_t>(size), 1e20F));
        EXPECT_FALSE(update(s, 0, size, w.data(), Mask(size), nullptr));
    }
}

TEST_P(KernelTest, UpdateWithoutDecayLeavesWhatIsNotSelected) {
    constexpr Index size = 300;
    Scalars s = scalars();
    s.decay = 1.0F;
    Mask current(size);
    current.set(7);
    current.set(290);
    current.count();
    std::vector<float> before(size, infinity);
    before[7] = 1.0F;
    before[290] = 2.0F;
    Guarded w(before);
    const Guarded u(std::vector<float>{0.0F, 0.0F});
    EXPECT_TRUE(update(s, 0, size, w.data(), current, u.data()));
    EXPECT_EQ(bits(w), bits(before));
}

} // namespace
} // namespace truestep::distributed::host

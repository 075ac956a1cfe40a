// A step in parts reads the same values of a rank's state as its pass over everything makes.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_support.hpp"

namespace truestep::distributed::host {
namespace {

class PartsTest : public EachVariant {};
INSTANTIATE_TEST_SUITE_P(Variants, PartsTest, ::testing::ValuesIn(supported_variants()), variant_name);

TEST_P(PartsTest, AddsInPlace) {
    std::mt19937_64 generator{11}; // NOLINT: the same numbers at each run
    const Guarded g(values(generator, 1000));
    Guarded sum(values(generator, 1000));
    std::vector<float> right;
    for (Index i = 0; i < 1000; ++i)
        right.push_back(i < 17 || i >= 990 ? sum.data()[i] : sum.data()[i] + g.data()[i]);
    add(17, 990, g.data(), sum.data());
    EXPECT_EQ(bits(sum), bits(right));
}

/// Runs the local pass over everything, then gathers pieces of what it has packed.
TEST_P(PartsTest, GathersWhatTheLocalPassPacks) {
    std::mt19937_64 generator{12}; // NOLINT: the same numbers at each run
    for (const Index size : {Index{1}, Index{63}, Index{65}, Index{4097}, Index{10'000}})
        for (const double density : {0.01, 0.5, 1.0}) {
            const Mask last = random_mask(generator, size, 1.0 - density / 2);
            const Mask current = random_mask(generator, size, density);
            const Guarded g(values(generator, size));
            const Guarded sum(values(generator, size));
            const Guarded e(values(generator, size));
            const Guarded m(values(generator, last.selected()));
            for (const bool added : {false, true}) {
                std::vector<float> whole(g.data(), g.data() + size);
                for (Index i = 0; added && i < size; ++i)
                    whole[static_cast<std::size_t>(i)] = sum.data()[i] + g.data()[i];
                std::vector<float> residual(e.data(), e.data() + size);
                std::vector<float> packed(static_cast<std::size_t>(current.selected()));
                EXPECT_EQ(local_pass(scalars(), 0, size,
                                     {whole.data(), residual.data(), residual.data(), last, m.data(),
                                      current, packed.data()}),
                          size);
                for (int piece = 0; piece < 20; ++piece) {
                    const Index one =
                        static_cast<Index>(generator() % static_cast<std::uint64_t>(size + 1));
                    const Index two =
                        static_cast<Index>(generator() % static_cast<std::uint64_t>(size + 1));
                    const auto [begin, end] = std::minmax(one, two);
                    const Index before = current.offset(begin);
                    Guarded gathered(current.offset(end) - before);
                    gather(scalars(), begin, end, added ? sum.data() : nullptr, g.data(), e.data(), last,
                           m.data(), current, gathered.data());
                    EXPECT_EQ(bits(gathered), bits(packed.data() + before, gathered.size()))
                        << size << " " << density << " " << begin << " " << end;
                }
            }
        }
}

TEST_P(PartsTest, SpreadPutsBackWhatExtractTakes) {
    std::mt19937_64 generator{13}; // NOLINT: the same numbers at each run
    for (const Index size : {Index{1}, Index{63}, Index{65}, Index{4097}, Index{10'000}})
        for (const double density : {0.01, 0.5, 1.0}) {
            const Mask mask = random_mask(generator, size, density);
            const std::vector<float> e = values(generator, size);
            std::vector<float> rest = e;
            std::vector<float> packed(static_cast<std::size_t>(mask.selected()));
            extract(0, size, rest.data(), mask, packed.data());
            const Index half = size / 2;
            spread(0, half, packed.data(), mask, rest.data());
            spread(half, size, packed.data() + mask.offset(half), mask, rest.data());
            EXPECT_EQ(bits(rest), bits(e)) << size << " " << density;
        }
}

} // namespace
} // namespace truestep::distributed::host

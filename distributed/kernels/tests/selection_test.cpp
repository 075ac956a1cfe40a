#include <truestep/distributed/kernels.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_support.hpp"

// Compares the selector with a full sort.

namespace truestep::distributed::host {
namespace {

/// The definition: all of [begin, end), larger score first, then the lower index.
std::vector<Index> sorted(const std::vector<float>& c, Index begin, Index end) {
    std::vector<Index> order;
    for (Index i = begin; i < end; ++i)
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&c](Index a, Index b) {
        return element::score(c[static_cast<std::size_t>(a)]) >
               element::score(c[static_cast<std::size_t>(b)]);
    });
    return order;
}

std::vector<std::uint64_t> words(const Mask& mask) {
    return {mask.words(), mask.words() + mask.word_count()};
}

struct DataClass {
    std::string name;
    float (*value)(std::mt19937_64& generator, Index index, Index size);
};

float normal(std::mt19937_64& generator) {
    std::normal_distribution<float> distribution(0.0F, 1.0F);
    return distribution(generator);
}

const std::vector<DataClass>& data_classes() {
    static const std::vector<DataClass> classes{
        {"normal", [](std::mt19937_64& generator, Index, Index) { return normal(generator); }},
        {"all equal",
         [](std::mt19937_64& generator, Index, Index) { return generator() % 2 == 0 ? 0.3F : -0.3F; }},
        {"zeros of both signs",
         [](std::mt19937_64& generator, Index, Index) { return generator() % 2 == 0 ? 0.0F : -0.0F; }},
        {"few magnitudes",
         [](std::mt19937_64& generator, Index, Index) {
             const float value = static_cast<float>(generator() % 5);
             return generator() % 2 == 0 ? value : -value;
         }},
        {"subnormals",
         [](std::mt19937_64& generator, Index, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(generator() % 0x0080'0000U));
         }},
        {"few subnormals",
         [](std::mt19937_64& generator, Index, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(generator() % 7));
         }},
        {"ascending", [](std::mt19937_64&, Index index, Index) { return static_cast<float>(index); }},
        {"descending",
         [](std::mt19937_64&, Index index, Index size) { return static_cast<float>(size - index); }},
        {"any bits of a number",
         [](std::mt19937_64& generator, Index, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(generator() % 0x7f80'0000U));
         }},
        {"one bin",
         [](std::mt19937_64& generator, Index, Index) {
             return std::bit_cast<float>(0x3f80'0000U + static_cast<std::uint32_t>(generator() % 128));
         }},
        {"one bin, then another",
         [](std::mt19937_64& generator, Index index, Index size) {
             return std::bit_cast<float>((index < size / 2 ? 0x3f80'0000U : 0x3f80'1000U) +
                                         static_cast<std::uint32_t>(generator() % 3000));
         }},
        {"mostly zero", [](std::mt19937_64& generator, Index,
                           Index) { return generator() % 10 == 0 ? normal(generator) : 0.0F; }},
        {"largest and least", [](std::mt19937_64& generator, Index, Index) {
             return generator() % 2 == 0 ? std::numeric_limits<float>::max()
                                         : std::numeric_limits<float>::denorm_min();
         }}};
    return classes;
}

constexpr std::uint32_t no_hint = 0;

class SelectorTest : public EachVariant {
  protected:
    static std::vector<float> data(const DataClass& data_class, std::mt19937_64& generator, Index size) {
        std::vector<float> result;
        for (Index i = 0; i < size; ++i)
            result.push_back(data_class.value(generator, i, size));
        return result;
    }

    /// Selects from [begin, end) of `size` coordinates, with no hint and with good and bad ones.
    static void check(std::mt19937_64& generator, const DataClass& data_class, Index size, Index begin,
                      Index end, const std::vector<Index>& ks, double density) {
        const std::vector<float> c = data(data_class, generator, size);
        const Mask current = random_mask(generator, size, density);
        std::vector<float> residual = c;
        std::vector<float> packed;
        for (const Index i : coordinates(current)) {
            packed.push_back(c[static_cast<std::size_t>(i)]);
            residual[static_cast<std::size_t>(i)] = 0.0F;
        }
        const Guarded e(residual);
        const Guarded payload(packed);
        const std::vector<Index> order = sorted(c, begin, end);

        Mask others(size); // other segments' bits must not change
        for (Index i = 0; i < size; ++i)
            if ((i < begin || i >= end) && i % 3 == 0)
                others.set(i);

        const Index n = end - begin;
        for (const Index k : ks) {
            if (k < 1 || k > n)
                continue;
            Mask expected = others;
            for (Index i = 0; i < k; ++i)
                expected.set(order[static_cast<std::size_t>(i)]);
            const Index last = order[static_cast<std::size_t>(k - 1)];
            const std::uint32_t right = element::score(c[static_cast<std::size_t>(last)]);
            for (const std::uint32_t hint :
                 {no_hint, right, right / 2, right + 0x0100'0000U, 1U, 0x7fff'ffffU, 0xffff'ffffU,
                  right + 0x0002'0000U, right - 0x0002'0000U}) {
                Mask next = others;
                std::uint32_t threshold = hint;
                Selector::select(begin, end, k, e.data(), current, payload.data(), next, threshold);
                ASSERT_EQ(words(next), words(expected))
                    << data_class.name << ", [" << begin << ", " << end << ") of " << size << ", k " << k
                    << ", density " << density << ", hint " << hint;
                ASSERT_EQ(threshold, k < n ? right : hint);
            }
        }
    }
};
INSTANTIATE_TEST_SUITE_P(Variants, SelectorTest, ::testing::ValuesIn(supported_variants()), variant_name);

TEST_P(SelectorTest, SmallSegments) {
    std::mt19937_64 generator(1);
    for (const DataClass& data_class : data_classes())
        for (const Index n : {1, 2, 63, 64, 65, 200, 1000})
            for (const Index begin : {0, 1, 63, 64, 100})
                for (const double density : {0.0, 0.1, 1.0})
                    check(generator, data_class, begin + n + 5, begin, begin + n,
                          {1, 2, n / 10, n / 2, n - 1, n}, density);
}

TEST_P(SelectorTest, SegmentsAroundChunks) {
    std::mt19937_64 generator(2);
    for (const DataClass& data_class : data_classes())
        for (const Index n : {4095, 4096, 4097, 8191, 8192, 8193, 10000})
            for (const Index begin : {0, 77})
                check(generator, data_class, begin + n, begin, begin + n, {1, 2, n / 100, n / 2, n - 1, n},
                      0.1);
}

TEST_P(SelectorTest, SegmentsThatAreSampled) {
    std::mt19937_64 generator(3);
    for (const DataClass& data_class : data_classes()) {
        const Index n = 70'001;
        check(generator, data_class, n + 60, 37, 37 + n, {1, 2, n / 100, n / 10, n / 2, n - 1, n}, 0.05);
    }
}

TEST_P(SelectorTest, LargeSegments) {
    std::mt19937_64 generator(5);
    for (const DataClass& data_class : data_classes()) {
        const Index n = 263'000;
        check(generator, data_class, n, 0, n, {n / 100}, 0.01);
        check(generator, data_class, n + 1, 1, n + 1, {n / 10}, 0.1);
    }
}

/// Tests selections that the local pass has begun: segments that it may not search, or whose words
/// have other coordinates, too; passes with different cuts; good and bad guesses.
class AheadTest : public SelectorTest {
  protected:
    static constexpr Index size = 30'050;
    struct Outcome {
        std::vector<std::uint64_t> words;
        std::vector<std::uint32_t> thresholds;
        Index missed = 0;
    };

    static std::vector<SelectionAhead::SegmentRequest> segments(double share) {
        std::vector<SelectionAhead::SegmentRequest> result;
        for (const auto& [begin, end] :
             {std::pair<Index, Index>{0, 37}, {37, 9'100}, {9'100, 9'102}, {9'102, size}})
            result.push_back(
                {begin,
                 end,
                 std::max<Index>(1, static_cast<Index>(share * static_cast<double>(end - begin))),
                 {}});
        return result;
    }

    static Outcome take(const std::vector<float>& c, const Mask& current,
                        const std::vector<SelectionAhead::SegmentRequest>& wanted,
                        const std::vector<Index>& cuts) {
        Scalars s;
        s.b1 = 0.5F;
        s.a1 = 1.0F;
        const Guarded g(c);
        Guarded e(std::vector<float>(c.size(), 0.0F));
        Guarded payload(current.selected());
        const Mask none(size);
        Outcome outcome;
        outcome.words.assign(static_cast<std::size_t>((size + 63) / 64), 0xaaaa'aaaa'aaaa'aaaaU);
        SelectionAhead ahead;
        ahead.begin(wanted, {outcome.words.data(), 0}, cuts);
        for (std::size_t part = 0; part + 1 < cuts.size(); ++part)
            EXPECT_EQ(local_pass(s, cuts[part], cuts[part + 1],
                                 {g.data(), e.data(), e.data(), none, nullptr, current, payload.data(),
                                  ahead.watches(part)}),
                      cuts[part + 1]);
        for (std::size_t i = 0; i < wanted.size(); ++i)
            outcome.thresholds.push_back(ahead.take(i, e.data(), current, payload.data()));
        outcome.missed = ahead.missed();
        return outcome;
    }
};
INSTANTIATE_TEST_SUITE_P(Variants, AheadTest, ::testing::ValuesIn(supported_variants()), variant_name);

TEST_P(AheadTest, TakesWhatTheSelectorTakes) {
    std::mt19937_64 generator(6);
    const std::vector<std::vector<Index>> cuts{
        {0, size}, {0, Mask::chunk, size}, {0, 0, 2 * Mask::chunk, 3 * Mask::chunk, size, size}};
    for (const DataClass& data_class : data_classes())
        for (const double share : {0.01, 0.1}) {
            const std::vector<float> c = data(data_class, generator, size);
            const Mask current = random_mask(generator, size, share);
            auto wanted = segments(share);
            Mask expected(size);
            std::vector<std::uint32_t> thresholds;
            for (const auto& segment : wanted) {
                const auto order = sorted(c, segment.begin, segment.end);
                for (Index i = 0; i < segment.k; ++i)
                    expected.set(order[static_cast<std::size_t>(i)]);
                thresholds.push_back(element::score(
                    c[static_cast<std::size_t>(order[static_cast<std::size_t>(segment.k - 1)])]));
            }
            for (const std::uint32_t reach : {0U, 1U, 1U << 13U, 1U << 18U, 1U << 30U})
                for (const int off : {0, 1, -1, 50'000, -3'000'000})
                    for (const auto& cut : cuts) {
                        for (std::size_t i = 0; i < wanted.size(); ++i)
                            wanted[i].guess = {
                                std::max(1U, thresholds[i] + static_cast<std::uint32_t>(off)) &
                                    0x7fff'ffffU,
                                reach, 0};
                        const Outcome found = take(c, current, wanted, cut);
                        ASSERT_EQ(found.words, words(expected)) << data_class.name << ", share " << share
                                                                << ", reach " << reach << ", off " << off;
                        ASSERT_EQ(found.thresholds, thresholds);
                        if (data_class.name == "normal" && reach == 1U << 18U) {
                            ASSERT_EQ(found.missed, std::abs(off) < 100'000 ? 0 : 2);
                        }
                    }
        }
}

TEST(Guess, FollowsWhatItLearns) {
    Guess guess;
    guess.learn(1U << 29U);
    const std::uint32_t first = guess.reach;
    EXPECT_EQ(guess.threshold, 1U << 29U);
    EXPECT_GT(first, 0U);
    for (int i = 0; i < 50; ++i)
        guess.learn(1U << 29U);
    EXPECT_LT(guess.reach, first / 4) << "of a threshold that stands still";
    const std::uint32_t far = (1U << 29U) + (1U << 16U);
    guess.learn(far);
    EXPECT_GE(guess.reach, 1U << 16U) << "as far as it has moved";
    EXPECT_GT(guess.threshold, far) << "it may go on";
    guess.learn(0x7f7f'ffffU);
    EXPECT_LT(guess.reach, 1U << 20U);
    EXPECT_LE(guess.threshold, 0x7fff'ffffU);
    guess.learn(0);
    EXPECT_EQ(guess.threshold, 0U);
}

TEST_P(SelectorTest, SegmentsThatShareAWord) {
    std::mt19937_64 generator(4);
    constexpr Index size = 130;
    const std::vector<float> c = data(data_classes().front(), generator, size);
    const Guarded e(c);
    const Mask current(size);
    for (const Index cut : {1, 10, 63, 64, 65, 70, 100, 128, 129}) {
        Mask next(size);
        std::uint32_t threshold = 0;
        Selector::select(cut, size, 1, e.data(), current, nullptr, next, threshold);
        Selector::select(0, cut, cut, e.data(), current, nullptr, next, threshold);
        std::vector<Index> expected;
        for (Index i = 0; i < cut; ++i)
            expected.push_back(i);
        expected.push_back(sorted(c, cut, size).front());
        EXPECT_EQ(coordinates(next), expected);
    }
}

TEST_P(SelectorTest, NothingIsTakenOfNothing) {
    Mask next(10);
    std::uint32_t threshold = 0;
    Selector::select(5, 5, 0, nullptr, Mask(10), nullptr, next, threshold);
    EXPECT_TRUE(coordinates(next).empty());
}

} // namespace
} // namespace truestep::distributed::host

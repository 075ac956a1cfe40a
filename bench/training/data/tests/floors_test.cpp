// Compares floors with hand calculations, and with sources whose entropy is known.
#include <truestep/training/floors.hpp>

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include <truestep/training/synthetic.hpp>

namespace truestep::training {
namespace {

TEST(Floors, OfAFewSymbolsByHand) {
    // Counted: 0 twice, 1 once. Order 0: (2 + 2/2) / 5 and (1 + 2/2) / 5. Behind 0 once a 0 and once a 1:
    // (1 + 2 * 0.6) / 4 and (1 + 2 * 0.4) / 4. Behind 1 nothing: as order 0.
    const Text text{.name = "", .symbols = 2, .learned = {0, 0, 1}, .measured = {0, 1, 1}, .entropy = {}};
    const std::vector<Floor> all = floors(text);
    ASSERT_EQ(all.size(), 8U);
    EXPECT_NEAR(all[0].loss, -(std::log(0.6) + (2 * std::log(0.4))) / 3, 1e-14);
    EXPECT_NEAR(all[1].loss, -(std::log(0.6) + std::log(0.45) + std::log(0.4)) / 3, 1e-14);
    EXPECT_NEAR(trigram(all), all[1].loss, 1e-14); // 0 1 was never followed by anything

    const NGrams grams(text.learned, 2);
    // Behind 0 0 once a 1: (1 + 0.45) / 2; a 0 never: 0.55 / 2.
    const std::vector<std::uint8_t> zeros(2, 0);
    EXPECT_NEAR(grams.chances(zeros, 1)[2], 0.725, 1e-15);
    EXPECT_NEAR(grams.chances(zeros, 0)[2], 0.275, 1e-15);
    EXPECT_NEAR(grams.chances(zeros, 0)[7], 0.275, 1e-15); // uses only the context that exists
}

TEST(Floors, AreNamed) {
    EXPECT_EQ(name(Floor{.order = 0, .loss = 0}), "unigram");
    EXPECT_EQ(name(Floor{.order = 2, .loss = 0}), "trigram");
    EXPECT_EQ(name(Floor{.order = 7, .loss = 0}), "8-gram");
}

Text small_synthetic(std::size_t symbols, std::uint32_t begins) {
    SyntheticSettings settings{.seed = 6};
    settings.symbols = symbols;
    settings.kinds = std::min<std::size_t>(symbols, 8);
    settings.successors = symbols / 2;
    settings.begins = begins;
    settings.learned = 1U << 16U;
    settings.measured = 1U << 13U;
    return synthetic_text(settings);
}

TEST(Floors, ChancesOfAllSymbolsSumToOneBehindAnyContext) {
    const Text text = small_synthetic(16, 2048);
    const NGrams grams(text.learned, text.symbols);
    for (std::size_t at = 0; at < 300; ++at) {
        std::vector<double> sums(NGrams::orders, 0.0);
        // Contexts that occur, and others that never did.
        std::vector<std::uint8_t> before(text.measured.begin() + static_cast<std::ptrdiff_t>(at * 20),
                                         text.measured.begin() +
                                             static_cast<std::ptrdiff_t>((at * 20) + (at % 9)));
        if (at % 3 == 0 && !before.empty())
            before.front() = static_cast<std::uint8_t>(15 - before.front());
        for (std::size_t symbol = 0; symbol < text.symbols; ++symbol) {
            const std::vector<double> chances = grams.chances(before, static_cast<std::uint8_t>(symbol));
            for (std::size_t order = 0; order < NGrams::orders; ++order) {
                ASSERT_GT(chances[order], 0.0);
                sums[order] += chances[order];
            }
        }
        for (const double sum : sums)
            ASSERT_NEAR(sum, 1.0, 1e-12);
    }
}

TEST(Floors, TheTrigramComesNearTheEntropyOfASourceOfOrderTwoAndTheBigramDoesNot) {
    const Text text = small_synthetic(8, 0);
    const std::vector<Floor> all = floors(text);
    EXPECT_GT(trigram(all), *text.entropy);
    EXPECT_LT(trigram(all), *text.entropy + 0.02);
    EXPECT_GT(all[1].loss, *text.entropy + 0.2);
    EXPECT_GT(all[0].loss, all[1].loss);
    EXPECT_LT(all[0].loss, std::log(8.0));
}

TEST(Floors, NoneReachesTheEntropyOfATextWithCopies) {
    const Text text = small_synthetic(64, 2048);
    for (const Floor& floor : floors(text))
        EXPECT_GT(floor.loss, *text.entropy + 0.3) << name(floor);
}

} // namespace
} // namespace truestep::training

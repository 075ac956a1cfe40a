// Tests synthetic texts and what is known of them, and texts of files.
#include <truestep/training/synthetic.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::training {
namespace {

using ::testing::HasSubstr;

/// So small that every possible text can be tried.
SyntheticSettings tiny_source() {
    return {.seed = 5,
            .symbols = 3,
            .kinds = 2,
            .successors = 2,
            .begins = 20000,
            .ends = 30000,
            .nearest = 2,
            .farthest = 4,
            .learned = 8,
            .measured = 1};
}

/// The probability of a text as the sum over all hidden paths: state 0 is free, d copies from d
/// back.
double by_all_paths(const Chain& chain, const SyntheticSettings& of, const std::vector<std::uint8_t>& all,
                    std::size_t at, std::size_t state) {
    if (at == all.size())
        return 1.0;
    const double begins = of.begins / 65536.0;
    const double ends = of.ends / 65536.0;
    const auto emitted = [&](std::size_t from) {
        if (from != 0)
            return all[at] == all[at - from] ? 1.0 : 0.0;
        return at < 2 ? 1.0 / static_cast<double>(of.symbols)
                      : chain.probability(all[at - 2], all[at - 1], all[at]);
    };
    if (at < of.farthest)
        return emitted(0) * by_all_paths(chain, of, all, at + 1, 0);
    const auto with = [&](double chance, std::size_t next) {
        const double here = chance * emitted(next);
        return here == 0.0 ? 0.0 : here * by_all_paths(chain, of, all, at + 1, next);
    };
    if (state != 0)
        return with(ends, 0) + with(1.0 - ends, state);
    double sum = with(1.0 - begins, 0);
    const auto distances = static_cast<double>(of.farthest - of.nearest + 1);
    for (std::size_t distance = of.nearest; distance <= of.farthest; ++distance)
        sum += with(begins / distances, distance);
    return sum;
}

TEST(SyntheticText, TheFilterIsTheSumOverAllHiddenPathsOfEveryTextAndTheseSumToOne) {
    const SyntheticSettings settings = tiny_source();
    const Chain chain(settings);
    double sum = 0.0;
    constexpr std::size_t length = 8;
    std::size_t possible = 0;
    for (std::size_t number = 0; number < 6561; ++number) { // 3^8
        std::vector<std::uint8_t> all;
        for (std::size_t i = 0, rest = number; i < length; ++i, rest /= 3)
            all.push_back(static_cast<std::uint8_t>(rest % 3));
        Filter filter(chain, settings);
        double chance = 1.0;
        for (std::size_t i = 0; i < length && chance > 0.0; ++i)
            chance *= filter.take(all[i]);
        ASSERT_NEAR(chance, by_all_paths(chain, settings, all, 0, 0), 1e-15);
        sum += chance;
        possible += chance > 0.0 ? 1 : 0;
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
    EXPECT_GT(possible, 1000U);
}

TEST(SyntheticText, WithoutCopiesItsEntropyIsTheChainsRate) {
    SyntheticSettings settings{.seed = 3};
    settings.begins = 0;
    settings.learned = 1000;
    settings.measured = 1U << 17U;
    const Text text = synthetic_text(settings);
    // A symbol's surprise deviates by about 1, so the mean of 2^17 by 0.003.
    EXPECT_NEAR(*text.entropy, Chain(settings).entropy_rate(), 0.012);
}

TEST(SyntheticText, TheRateOfTwoSymbolsIsThatOfItsClosedForm) {
    SyntheticSettings settings{.seed = 9};
    settings.symbols = 2;
    settings.kinds = 1;
    settings.successors = 2;
    const Chain chain(settings);
    const double up = chain.probability(0, 0, 1);
    const double down = chain.probability(0, 1, 0);
    const auto entropy = [](double p) { return -(p * std::log(p)) - ((1 - p) * std::log(1 - p)); };
    EXPECT_NEAR(chain.entropy_rate(), ((down * entropy(up)) + (up * entropy(down))) / (up + down), 1e-12);
}

TEST(SyntheticText, CopiesLowerTheEntropyAndNobodyWithOtherSettingsDoesBetter) {
    SyntheticSettings settings{.seed = 4};
    settings.learned = 5000;
    settings.measured = 40000;
    const Text text = synthetic_text(settings);
    const Chain chain(settings);
    EXPECT_LT(*text.entropy, chain.entropy_rate() - 0.2);
    for (const double factor : {0.5, 2.0}) {
        SyntheticSettings other = settings;
        other.begins = static_cast<std::uint32_t>(other.begins * factor);
        other.ends = static_cast<std::uint32_t>(other.ends * factor);
        Filter filter(chain, other);
        for (const std::uint8_t symbol : text.learned)
            filter.take(symbol);
        double loss = 0.0;
        for (const std::uint8_t symbol : text.measured)
            loss -= std::log(filter.take(symbol));
        EXPECT_GT(loss / 40000, *text.entropy + 1e-3) << factor;
    }
}

TEST(SyntheticText, IsTheSameOnEveryMachineAndAnotherOfAnotherSeed) {
    SyntheticSettings settings{.seed = 1};
    settings.learned = 2000;
    settings.measured = 500;
    const Text text = synthetic_text(settings);
    ASSERT_EQ(text.learned.size(), 2000U);
    ASSERT_EQ(text.measured.size(), 500U);
    // FNV-1a of all symbols; it must never change.
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325U;
    for (const auto* part : {&text.learned, &text.measured})
        for (const std::uint8_t symbol : *part)
            hash = (hash ^ symbol) * 0x0000'0100'0000'01b3U;
    EXPECT_EQ(hash, 9593829475729742989U);
    settings.seed = 2;
    EXPECT_NE(synthetic_text(settings).learned, text.learned);
}

std::string refused(SyntheticSettings settings) {
    try {
        (void)synthetic_text(settings);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(SyntheticText, ImpossibleSettingsAreRefusedInOneLine) {
    EXPECT_EQ(refused({.symbols = 257}), "synthetic text: symbols is 257; it must be from 2 to 256");
    EXPECT_THAT(refused({.kinds = 0}), HasSubstr("kinds is 0"));
    EXPECT_THAT(refused({.symbols = 4, .kinds = 4, .successors = 5}), HasSubstr("successors is 5"));
    EXPECT_THAT(refused({.begins = 65537}), HasSubstr("begins is 65537"));
    EXPECT_THAT(refused({.ends = 0}), HasSubstr("ends is 0"));
    EXPECT_THAT(refused({.nearest = 48}), HasSubstr("nearest is 48"));
    EXPECT_THAT(refused({.learned = 47}), HasSubstr("learned is 47"));
    EXPECT_THAT(refused({.measured = 0}), HasSubstr("measured is 0"));
}

class TextOfFile : public ::testing::Test {
  protected:
    std::filesystem::path written(const std::string& text) const {
        const std::filesystem::path path =
            std::filesystem::path(::testing::TempDir()) /
            (std::string("text_of_file_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt");
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    static std::string refusal(const std::filesystem::path& path, double share = 0.9) {
        try {
            (void)text_of_file(path, share);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
            return error.what();
        }
        return "";
    }
};

TEST_F(TextOfFile, BytesThatOccurAreTheSymbolsInAscendingOrder) {
    std::string bytes;
    for (int i = 0; i < 1000; ++i)
        bytes += "z\xff\na"[i % 4];
    const Text text = text_of_file(written(bytes), 0.7);
    EXPECT_EQ(text.symbols, 4U);
    ASSERT_EQ(text.learned.size(), 700U);
    ASSERT_EQ(text.measured.size(), 300U);
    EXPECT_THAT(std::vector<std::uint8_t>(text.learned.begin(), text.learned.begin() + 4),
                ::testing::ElementsAre(2, 3, 0, 1));
    EXPECT_EQ(text.measured.front(), 2);
    EXPECT_FALSE(text.entropy.has_value());
}

TEST_F(TextOfFile, WhatIsNoTextIsRefusedInOneLine) {
    EXPECT_THAT(refusal("/nowhere/at\nall"), HasSubstr("/nowhere/at all: there is no such file"));
    EXPECT_THAT(refusal(::testing::TempDir()), HasSubstr("is a folder"));
    EXPECT_THAT(refusal("/dev/zero"), HasSubstr("has no known length"));
    EXPECT_THAT(refusal(written(std::string(2000, 'a')), 0.9), HasSubstr("too short: 1800 symbols"));
    EXPECT_THAT(refusal(written(std::string(4000, 'a')), 0.9), HasSubstr("one symbol alone"));
    EXPECT_THAT(refusal(written("abc"), 1.0), HasSubstr("is 1; it must be between 0 and 1"));
}

} // namespace
} // namespace truestep::training

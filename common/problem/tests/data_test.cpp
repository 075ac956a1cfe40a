// Tests that synthetic data has the same bits everywhere and the properties of its class.
#include <truestep/problem/data.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/scape/check.hpp>

#include "support.hpp"

namespace truestep::problem {
namespace {

using verify::scape::support::contains;
using verify::scape::support::error_of;

constexpr std::array all_classes{DataClass::normal, DataClass::dyadic,    DataClass::ties,
                                 DataClass::sparse, DataClass::subnormal, DataClass::wide,
                                 DataClass::zeros,  DataClass::limit,     DataClass::once};

std::uint32_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

/// A step's gradient of one rank.
std::vector<float> gradient_of(DataClass kind, Index count, int rank = 0, Index step = 1,
                               std::uint64_t seed = 1) {
    std::vector<float> values;
    for (Index index = 0; index < count; ++index)
        values.push_back(gradient_value(kind, seed, rank, step, index));
    return values;
}

double share_of(const std::vector<float>& values, bool (*property)(float)) {
    return static_cast<double>(std::count_if(values.begin(), values.end(), property)) /
           static_cast<double>(values.size());
}

bool is_zero(float value) {
    return value == 0.0F;
}

TEST(Data, AValueFollowsFromItsArgumentsAlone) {
    for (const DataClass kind : all_classes) {
        const float alone = gradient_value(kind, 5, 3, 7, 1000);
        static_cast<void>(gradient_of(kind, 100, 2, 9));
        EXPECT_EQ(bits(gradient_value(kind, 5, 3, 7, 1000)), bits(alone));
        const std::vector<float> forwards = gradient_of(kind, 50);
        for (Index index = 49; index >= 0; --index)
            EXPECT_EQ(bits(gradient_value(kind, 1, 0, 1, index)),
                      bits(forwards[static_cast<std::size_t>(index)]));
    }
}

TEST(Data, SeedRankStepAndIndexEachMakeOtherValues) {
    for (const DataClass kind : all_classes) {
        const std::vector<float> base = gradient_of(kind, 1000);
        EXPECT_NE(gradient_of(kind, 1000, 1), base);
        EXPECT_NE(gradient_of(kind, 1000, 0, 2), base);
        EXPECT_NE(gradient_of(kind, 1000, 0, 1, 2), base);
        EXPECT_GT(std::set<float>(base.begin(), base.end()).size(), 2U);
    }
}

TEST(Data, AllIsFiniteAndNothingIsRefused) {
    for (const DataClass kind : all_classes)
        for (int rank = 0; rank < 8; ++rank)
            for (const float value : gradient_of(kind, 5000, rank, 3))
                ASSERT_LE(std::abs(static_cast<double>(value)), reference::scape::greatest_gradient);
}

TEST(Data, EveryMachineMakesTheseBits) {
    // The golden traces depend on these values.
    constexpr std::array<Index, 3> indices{4, 11, 15};
    const std::map<DataClass, std::array<std::uint32_t, 3>> expected{
        {DataClass::normal, {0xbad28000U, 0x3d9ec800U, 0x3d646f00U}},
        {DataClass::dyadic, {0x3ee80000U, 0x3eb00000U, 0x3e600000U}},
        {DataClass::ties, {0x3f800000U, 0xbf800000U, 0xbf000000U}},
        {DataClass::sparse, {0x00000000U, 0x3d9ec800U, 0x3d646f00U}},
        {DataClass::subnormal, {0x800034a0U, 0x0009ec80U, 0x00072378U}},
        {DataClass::wide, {0xcbd28000U, 0x469ec800U, 0x3e646f00U}},
        {DataClass::zeros, {0x00000000U, 0x80000000U, 0x80000000U}},
        {DataClass::limit, {0x5b7fe002U, 0x5affe002U, 0xdb000000U}},
        {DataClass::once, {0, 0, 0}}, // but in step 1
    };
    for (const DataClass kind : all_classes)
        for (std::size_t i = 0; i < 3; ++i)
            EXPECT_EQ(bits(gradient_value(kind, 1, 2, 3, indices[i])), expected.at(kind)[i]);
    EXPECT_EQ(gradient(DataClass::once, 1, 2, 1, 9), gradient(DataClass::normal, 1, 2, 1, 9));
    EXPECT_EQ(bits(initial_parameter(DataClass::normal, 1, 0)), 0x3ce4f800U);
    EXPECT_EQ(bits(initial_parameter(DataClass::dyadic, 1, 0)), 0x3ce00000U);
}

TEST(Data, NormalIsABellWithScalesThatDifferByCoordinate) {
    std::map<int, std::vector<double>> by_scale;
    for (Index index = 0; index < 200; ++index) {
        double sum = 0.0;
        double squares = 0.0;
        constexpr Index steps = 300;
        for (Index step = 1; step <= steps; ++step) {
            const auto value = static_cast<double>(gradient_value(DataClass::normal, 1, 0, step, index));
            sum += value;
            squares += value * value;
        }
        const double deviation = std::sqrt(squares / steps);
        EXPECT_LT(std::abs(sum / steps), 0.3 * deviation) << "centred";
        by_scale[static_cast<int>(std::lround(std::log2(deviation)))].push_back(deviation);
    }
    EXPECT_GE(by_scale.size(), 5U);
    EXPECT_GE(by_scale.begin()->first, -5);
    EXPECT_LE(by_scale.rbegin()->first, 1);
    // One deviation holds 68 % of a normal distribution.
    std::vector<float> one_coordinate;
    double squares = 0.0;
    for (Index step = 1; step <= 10'000; ++step) {
        one_coordinate.push_back(gradient_value(DataClass::normal, 1, 0, step, 0));
        squares += std::pow(static_cast<double>(one_coordinate.back()), 2.0);
    }
    const double deviation = std::sqrt(squares / 10'000.0);
    double inside = 0.0;
    for (const float value : one_coordinate)
        inside += std::abs(static_cast<double>(value)) < deviation ? 1.0 : 0.0;
    EXPECT_NEAR(inside / 10'000.0, 0.68, 0.03);
}

TEST(Data, HalfOfNormalIsSharedByAllRanks) {
    double own = 0.0;
    double both = 0.0;
    for (Index step = 1; step <= 10'000; ++step) {
        const auto a = static_cast<double>(gradient_value(DataClass::normal, 1, 0, step, 0));
        const auto b = static_cast<double>(gradient_value(DataClass::normal, 1, 1, step, 0));
        own += a * a;
        both += a * b;
    }
    EXPECT_NEAR(both / own, 0.5, 0.05) << "the correlation of two ranks";
}

TEST(Data, DyadicHasFewBitsSoThatSumsOverRanksAreExactInAnyOrder) {
    for (Index index = 0; index < 2000; ++index) {
        float forwards = 0.0F;
        float backwards = 0.0F;
        for (int rank = 0; rank < 64; ++rank) {
            const float value = gradient_value(DataClass::dyadic, 1, rank, 1, index);
            ASSERT_LE(std::abs(value), 0.5F);
            ASSERT_EQ(value * 64.0F, std::trunc(value * 64.0F));
            forwards += value;
            backwards += gradient_value(DataClass::dyadic, 1, 63 - rank, 1, index);
        }
        ASSERT_EQ(forwards, backwards);
    }
}

TEST(Data, TiesHasTwoMagnitudesAndZerosOfBothSigns) {
    std::map<std::uint32_t, int> counts;
    for (const float value : gradient_of(DataClass::ties, 8000))
        ++counts[bits(value)];
    EXPECT_EQ(counts.size(), 6U);
    for (const float value : {1.0F, -1.0F})
        EXPECT_NEAR(counts[bits(value)], 2000, 200) << value;
    for (const float value : {0.5F, -0.5F, 0.0F, -0.0F})
        EXPECT_NEAR(counts[bits(value)], 1000, 150) << value;
}

TEST(Data, OfSparseNineOfTenAreZeroOnEachRankByItself) {
    const std::vector<float> first = gradient_of(DataClass::sparse, 20'000, 0);
    EXPECT_NEAR(share_of(first, is_zero), 0.9, 0.01);
    const std::vector<float> second = gradient_of(DataClass::sparse, 20'000, 1);
    int both = 0;
    for (std::size_t i = 0; i < first.size(); ++i)
        both += first[i] != 0.0F && second[i] != 0.0F ? 1 : 0;
    EXPECT_NEAR(both, 200, 60) << "the zeros of two ranks are drawn apart";
    for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i] != 0.0F) {
            ASSERT_EQ(first[i], gradient_value(DataClass::normal, 1, 0, 1, static_cast<Index>(i)));
        }
}

TEST(Data, SubnormalLiesWhereFp32NumbersLoseBits) {
    int lost = 0;
    for (Index index = 0; index < 5000; ++index) {
        const float value = gradient_value(DataClass::subnormal, 1, 0, 1, index);
        const float normal = gradient_value(DataClass::normal, 1, 0, 1, index);
        ASSERT_EQ(std::ldexp(value, 126), normal) << "the values themselves are exact";
        lost += std::ldexp(0.1F * value, 126) != 0.1F * normal ? 1 : 0;
    }
    EXPECT_GT(lost, 2500) << "what is made of them is not";
    EXPECT_GT(share_of(gradient_of(DataClass::subnormal, 5000),
                       [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }),
              0.5);
}

TEST(Data, WideHasScalesFromTwoToTheMinus60ToTwoToThe40) {
    double least = std::numeric_limits<double>::infinity();
    double greatest = 0.0;
    for (Index index = 0; index < 2000; ++index) {
        double squares = 0.0;
        for (Index step = 1; step <= 50; ++step)
            squares +=
                std::pow(static_cast<double>(gradient_value(DataClass::wide, 1, 0, step, index)), 2.0);
        least = std::min(least, std::sqrt(squares / 50.0));
        greatest = std::max(greatest, std::sqrt(squares / 50.0));
    }
    EXPECT_NEAR(std::log2(least), -60.0, 1.0);
    EXPECT_NEAR(std::log2(greatest), 40.0, 1.0);
}

TEST(Data, InitialParametersAreOfTheOrderOfOneAndOfFewBitsForDyadic) {
    for (const DataClass kind : all_classes) {
        double squares = 0.0;
        for (Index index = 0; index < 2000; ++index) {
            const float value = initial_parameter(kind, 1, index);
            ASSERT_LE(std::abs(value), 1.0F);
            squares += static_cast<double>(value) * static_cast<double>(value);
            if (kind == DataClass::dyadic) {
                ASSERT_EQ(value * 256.0F, std::trunc(value * 256.0F));
            }
        }
        EXPECT_GT(std::sqrt(squares / 2000.0), 0.05);
        EXPECT_NE(bits(initial_parameter(kind, 1, 3)), bits(initial_parameter(kind, 2, 3)));
    }
}

TEST(Data, NamesAreReadBack) {
    const std::vector<std::string> names{"normal", "dyadic", "ties",  "sparse", "subnormal",
                                         "wide",   "zeros",  "limit", "once"};
    ASSERT_EQ(names.size(), all_classes.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(parse_data_class(names[i]), all_classes[i]);
        EXPECT_TRUE(contains(data_class_names(), names[i]));
    }
    for (const char* name : {"", "Normal", "gauss"})
        EXPECT_TRUE(contains(error_of([&] { static_cast<void>(parse_data_class(name)); }),
                             "must be one of " + data_class_names()));
}

} // namespace
} // namespace truestep::problem

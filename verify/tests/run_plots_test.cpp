// Tests the data that a page draws of a run.
#include <truestep/verify/run_plots.hpp>

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/level.hpp>

namespace truestep::verify {
namespace {

/// The comparison of a vector of this size in which these values differ.
Comparison comparison_of(Index size, const std::vector<Index>& wrong) {
    const std::vector<float> expected(static_cast<std::size_t>(size), 1.0F);
    std::vector<float> actual = expected;
    for (const Index i : wrong)
        actual[static_cast<std::size_t>(i)] = 2.0F;
    return compare(expected, actual, Level::exact());
}

problem::Layout tensors_of_two(int count) {
    std::vector<problem::Tensor> tensors;
    for (int i = 0; i < count; ++i)
        tensors.push_back({"t" + std::to_string(i), 2, false});
    return problem::Layout(std::move(tensors));
}

TEST(Comparison, SaysWhichValuesAreWrongUpToTheLast) {
    EXPECT_TRUE(comparison_of(8, {}).wrong.empty()) << "what is right costs nothing";
    EXPECT_EQ(comparison_of(8, {1, 3}).wrong, (std::vector<bool>{false, true, false, true}));
}

TEST(DifferenceMap, CountsByStepAndTensor) {
    DifferenceMap map("residual", "residual", 3, tensors_of_two(2));
    map.add(2, comparison_of(4, {1, 2, 3})); // of rank 0
    map.add(2, comparison_of(4, {}));        // of rank 1
    EXPECT_EQ(map.at(1, 0).wrong, 1);
    EXPECT_EQ(map.at(1, 0).compared, 4);
    EXPECT_EQ(map.at(1, 1).wrong, 2);
    EXPECT_EQ(map.at(0, 0).compared, 0);
    // Comparing with another rank adds no values; fingerprints know no tensor.
    map.add(2, comparison_of(4, {0}), true);
    map.add(2, Comparison{});
    EXPECT_EQ(map.at(1, 0).wrong, 2);
    EXPECT_EQ(map.at(1, 0).compared, 4);
    const auto json = map.json();
    EXPECT_EQ(json["rows"][0]["cells"].dump(), "[null,[2,4],null]");
    EXPECT_EQ(json["columns"][1].dump(), "{\"from\":2,\"to\":2}");
}

TEST(DifferenceMap, IsBoundedAndLosesNothing) {
    constexpr Index steps = 1000;
    constexpr int tensors = 100;
    DifferenceMap map("residual", "residual", steps, tensors_of_two(tensors));
    EXPECT_EQ(map.columns(), DifferenceMap::most_columns);
    EXPECT_EQ(map.rows(), DifferenceMap::most_rows);
    for (Index step = 1; step <= steps; ++step)
        map.add(step, comparison_of(2 * tensors, {0, 2 * tensors - 1}));
    Index wrong = 0;
    Index compared = 0;
    for (Index column = 0; column < map.columns(); ++column)
        for (Index row = 0; row < map.rows(); ++row) {
            wrong += map.at(column, row).wrong;
            compared += map.at(column, row).compared;
        }
    EXPECT_EQ(wrong, 2 * steps);
    EXPECT_EQ(compared, steps * 2 * tensors);
    // Columns and rows follow each other without gaps, and each step is in the column that names
    // it.
    const auto json = map.json();
    Index next = 1;
    for (const auto& column : json["columns"]) {
        EXPECT_EQ(column["from"], next);
        next = column["to"].get<Index>() + 1;
    }
    EXPECT_EQ(next, steps + 1);
    EXPECT_EQ(json["rows"].back()["end"], 2 * tensors);
    EXPECT_EQ(json["rows"][0]["name"], "t0 to t2");
    DifferenceMap one("residual", "residual", steps, tensors_of_two(tensors));
    const Index from = json["columns"][7]["from"];
    one.add(from, comparison_of(2 * tensors, {0}));
    one.add(from - 1, comparison_of(2 * tensors, {0}));
    EXPECT_EQ(one.at(7, 0).wrong, 1);
    EXPECT_EQ(one.at(6, 0).wrong, 1);
}

TEST(RunPlots, WhatWasNotRecordedIsNullAndNoNumberIsAText) {
    const RunPlots seen{
        {{"norm", "says", {{"rank 0", {1.5, std::nullopt, std::numeric_limits<double>::infinity()}}}}}, {}};
    EXPECT_EQ(json(seen)["curves"][0]["lines"][0]["values"].dump(), "[1.5,null,\"inf\"]");
}

} // namespace
} // namespace truestep::verify

// Tests which segments a sample takes, and their places in the whole model.
#include <truestep/problem/sample.hpp>

#include <set>
#include <string>

#include <gtest/gtest.h>

#include <truestep/problem/problem.hpp>

#include "support.hpp"

namespace truestep::problem {
namespace {

using verify::scape::support::contains;
using verify::scape::support::error_of;

/// wq in three segments, [0, 40), [40, 80), [80, 100); norm [100, 105); mlp [105, 120), [120, 160),
/// [160, 200).
Problem model() {
    return make_problem(
        Algorithm::scape, 5,
        Layout({{"wq", 100, false}, {"empty", 0, false}, {"norm", 5, true}, {"mlp", 95, false}}),
        PartitionRule::by_shard, {});
}

Index size_of(const Sample& sample, const Problem& problem) {
    Index size = 0;
    for (const Range& range : ranges_of(sample, problem))
        size += range.size();
    return size;
}

TEST(Sample, NamedTensorsAreThereInFull) {
    EXPECT_EQ(choose_sample(model(), "wq"), (Sample{0, 1, 2}));
    EXPECT_EQ(choose_sample(model(), "mlp,norm,mlp"), (Sample{3, 4, 5, 6}));
    EXPECT_EQ(choose_sample(model(), "wq@40"), (Sample{1}));
    EXPECT_EQ(choose_sample(model(), "wq@39,mlp@94"), (Sample{0, 6}));
}

TEST(Sample, AShareIsNeverExceeded) {
    const Problem problem = model();
    std::set<Sample> seen;
    for (int seed = 1; seed < 40; ++seed) {
        const Sample sample = choose_sample(problem, "0.3:" + std::to_string(seed));
        EXPECT_LE(size_of(sample, problem), 60);
        EXPECT_GE(size_of(sample, problem), 40) << "there is always one more that fits";
        EXPECT_EQ(sample, choose_sample(problem, "0.3:" + std::to_string(seed)));
        seen.insert(sample);
    }
    EXPECT_GT(seen.size(), 3U);
    EXPECT_EQ(choose_sample(problem, "0.3"), choose_sample(problem, "0.3:1"));
    EXPECT_EQ(choose_sample(problem, "1").size(), 7U);
}

TEST(Sample, EveryTensorComesBeforeASecondSegmentOfOne) {
    const Problem problem = model();
    for (int seed = 1; seed < 40; ++seed) {
        const Sample sample = choose_sample(problem, "0.5:" + std::to_string(seed));
        std::set<std::size_t> tensors;
        for (const std::size_t segment : sample)
            tensors.insert(problem.layout.tensor_at(problem.segments[segment].begin));
        EXPECT_EQ(tensors.size(), 3U);
    }
}

TEST(Sample, WhatFitsNowhereIsTheSmallest) {
    EXPECT_EQ(choose_sample(model(), "1e-9"), (Sample{3}));
}

TEST(Sample, SaysWhatIsWrong) {
    const auto error = [](const std::string& text) {
        return error_of([&] { static_cast<void>(choose_sample(model(), text)); });
    };
    for (const char* text : {"0", "1.5", "-1", "nan", "0.1:x", "0.1:-1", "0.1:"})
        EXPECT_TRUE(contains(error(text), "more than 0 and at most 1")) << text;
    for (const char* text : {"", "wv", "wq,", "wv@3", "empty"})
        EXPECT_TRUE(contains(error(text), "tensors such as wq")) << text;
    for (const char* text : {"wq@100", "wq@", "wq@-1", "wq@x"})
        EXPECT_TRUE(contains(error(text), "indices 0 to 99")) << text;
    for (const Sample& sample : {Sample{}, Sample{7}, Sample{1, 1}, Sample{2, 1}})
        EXPECT_TRUE(contains(error_of([&] { check(sample, model()); }), "sample"));
    check({0, 6}, model());
}

TEST(Sample, APartKnowsItsPlaceInTheModel) {
    const Problem problem = model();
    const Problem held = part(problem, ranges_of({1, 2, 3, 6}, problem));
    check(held);
    ASSERT_EQ(held.layout.tensors().size(), 3U) << "two segments side by side are one stretch";
    EXPECT_EQ(held.layout.size(), 105);
    EXPECT_EQ(held.layout.describe(0), "tensor wq, index 40 (coordinate 40)");
    EXPECT_EQ(held.layout.describe(59), "tensor wq, index 99 (coordinate 99)");
    EXPECT_EQ(held.layout.describe(60), "tensor norm, index 0 (coordinate 100)");
    EXPECT_EQ(held.layout.describe(104), "tensor mlp, index 94 (coordinate 199)");
    EXPECT_EQ(held.segments[3], (Segment{65, 105, 4, false}));
    EXPECT_TRUE(held.segments[2].always_dense);
    // A part of a part is also a part of the model.
    const Problem again = part(held, {{60, 105}});
    EXPECT_EQ(again.layout.describe(5), "tensor mlp, index 55 (coordinate 160)");
    EXPECT_EQ(describe({1, 3}, problem), "wq, index 40 to 79; norm");
    EXPECT_EQ(describe({0, 3, 4}, problem, 1), "wq, index 0 to 39; and 2 more");
}

} // namespace
} // namespace truestep::problem

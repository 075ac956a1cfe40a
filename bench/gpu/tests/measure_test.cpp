// Tests the measuring on a device that is the host (host_device.cpp): the rows exist, and a device
// that computes wrong results is found. Its times mean nothing.
#include <set>

#include <gtest/gtest.h>

#include "gpu/measure.hpp"

namespace truestep::gpu::bench {
namespace {

Options small() {
    Options options;
    options.sizes = {20'000, 50'001};
    options.densities = {0.1, 0.01};
    options.samples = 5;
    options.check_size = 10'007;
    return options;
}

TEST(Measure, HasEveryRowAndNothingWrong) {
    const Report report = measure(small());
    EXPECT_FALSE(report.wrong());
    const std::set<std::string> of_rank{"check",
                                        "decode mask",
                                        "local pass",
                                        "selection",
                                        "fold",
                                        "update with decay",
                                        "one read of the shard",
                                        "whole local step",
                                        "the same and the check"};
    for (const Index d : {20'000, 50'001}) {
        for (const double density : {0.1, 0.01}) {
            std::set<std::string> found;
            for (const Row& row : report.rows)
                if (row.d == d && row.density == density)
                    found.insert(row.name);
            EXPECT_EQ(found, of_rank) << d << " " << density;
        }
        std::set<std::string> dense;
        for (const Row& row : report.rows)
            if (row.d == d && row.density == 0.0)
                dense.insert(row.name);
        EXPECT_EQ(dense, (std::set<std::string>{"dense AdamS, one pass", "dense AdamW, one pass"}));
    }
    for (const Row& row : report.rows) {
        EXPECT_GE(row.seconds.size(), 5U) << row.name;
        EXPECT_GT(row.bytes, 0.0) << row.name;
        EXPECT_GT(row.copy, 0.0) << row.name;
        EXPECT_EQ(row.wrong.has_value(), row.name != "one read of the shard") << row.name;
        const bool selects = row.name == "selection" || row.name == "whole local step" ||
                             row.name == "the same and the check";
        ASSERT_EQ(row.guesses.has_value(), selects) << row.name;
        if (selects) {
            EXPECT_EQ(row.guesses->looked_for, static_cast<Index>(row.seconds.size())) << row.name;
            // In the first ten selections no guess holds; in small models some later ones fail,
            // too.
            EXPECT_GE(3 * row.guesses->held, 2 * row.guesses->looked_for) << "the warm-up is too short";
        }
    }
    ASSERT_EQ(report.launches.size(), 2U);
    EXPECT_NE(report.launches[0].graph, report.launches[1].graph);
    for (const Launch& launch : report.launches) {
        EXPECT_EQ(launch.seconds.size(), 20U);
        EXPECT_GT(launch.least, 0.0);
    }
    EXPECT_TRUE(report.notes.empty());
}

TEST(Measure, WholeStepsAreTheSumOfTheirPhases) {
    Options options = small();
    options.sizes = {200'003};
    options.densities = {0.1};
    options.samples = 15;
    const Report report = measure(options);
    double phases = 0.0;
    double step = 0.0;
    double with_check = 0.0;
    for (const Row& row : report.rows) {
        if (row.density == 0.0 || row.name == "one read of the shard")
            continue;
        if (row.name == "whole local step")
            step = median(row.seconds);
        else if (row.name == "the same and the check")
            with_check = median(row.seconds);
        else if (row.name != "check")
            phases += median(row.seconds);
    }
    EXPECT_GT(step, phases / 4) << "a phase does not count";
    EXPECT_LT(step, phases * 4) << "something else counts";
    EXPECT_GT(with_check, step);
}

TEST(Measure, WhatDoesNotFitIsSaid) {
    Options options = small();
    options.sizes = {4'000'000}; // the host's device has 16 MiB
    const Report report = measure(options);
    EXPECT_TRUE(report.rows.empty());
    ASSERT_EQ(report.notes.size(), 3U) << "two densities, and dense";
    EXPECT_NE(report.notes[0].find("d = 4000000: SKIPPED, a set of buffers takes"), std::string::npos);
}

} // namespace
} // namespace truestep::gpu::bench

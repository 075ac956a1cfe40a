// Tests fingerprints of runs: do ranks agree, and how far do two runs agree?
#include <truestep/verify/compare_fingerprints.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "support.hpp"

namespace truestep::verify {
namespace {

using scape::support::contains;

std::string hex(std::uint64_t value) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

/// The fingerprints of a synthetic rank; a test changes them.
using Held = std::function<std::uint64_t(int rank, Index step, const std::string& result, int tensor)>;

/// Each rank has its own gradients.
std::uint64_t usual(int rank, Index step, const std::string& result, int tensor) {
    const std::uint64_t place = static_cast<std::uint64_t>(step) * 100 + static_cast<std::uint64_t>(tensor);
    return result == "gradient" ? place * 1000 + static_cast<std::uint64_t>(rank)
                                : place + 0xfff0'0000'0000'0000U;
}

class PrintsTest : public testing::Test {
  protected:
    struct Run {
        std::string name;
        int workers = 3;
        Index steps = 4;
        Index every = 1;
        Held held = usual;
        std::string end = "";
    };

    std::vector<std::string> write(const Run& run) const {
        std::vector<std::string> paths;
        for (int rank = 0; rank < run.workers; ++rank) {
            paths.push_back((folder_ / (run.name + ".rank" + std::to_string(rank) + ".prints")).string());
            std::ofstream file(paths.back());
            file << head(run.workers, rank) << "\n";
            for (Index step = run.every; step <= run.steps; step += run.every) {
                file << R"({"step":)" << step << R"(,"learning_rate":0.5)";
                for (const std::string result : {"gradient", "parameters"})
                    file << ",\"" << result << "\":\"" << hex(run.held(rank, step, result, 0))
                         << hex(run.held(rank, step, result, 1)) << "\"";
                file << "}\n";
            }
            file << run.end;
        }
        return paths;
    }

    static std::string head(int workers, int rank) {
        return R"({"format":"scape-fingerprints","version":"1","source":"a test","workers":)" +
               std::to_string(workers) + R"(,"rank":)" + std::to_string(rank) +
               R"(,"tensors":[{"name":"a","size":3},{"name":"b","size":4}],)"
               R"("results":["gradient","parameters"],"replicated":["parameters"]})";
    }

    [[nodiscard]] PrintsVerdict compared(const Run& run) const {
        return compare_prints(read_run(write(run)), {});
    }
    [[nodiscard]] PrintsVerdict compared(const Run& run, const Run& other) const {
        return compare_prints(read_run(write(run)), read_run(write(other)));
    }

    /// The line of the error.
    [[nodiscard]] std::string refused(const std::string& text) const {
        const std::string path = (folder_ / "bad.prints").string();
        std::ofstream(path) << text;
        try {
            static_cast<void>(read_run({path}));
        } catch (const Error& error) {
            return error.what();
        }
        return "it was taken";
    }

    scape::support::TemporaryFolder folder_;
};

TEST_F(PrintsTest, RanksThatAreAlikeAreTheSame) {
    const PrintsVerdict verdict = compared({.name = "run"});
    EXPECT_TRUE(verdict.same());
    EXPECT_EQ(verdict.compared, 4 * 2 * 2)
        << "of parameters alone: steps, tensors, two ranks beside the first";
    EXPECT_EQ(verdict.replicated, std::vector<std::string>{"parameters"});
}

TEST_F(PrintsTest, ARankThatDriftsIsNamedWithTheStepAndTheTensor) {
    const PrintsVerdict verdict =
        compared({.name = "run", .held = [](int rank, Index step, const std::string& result, int tensor) {
                      const bool drifts = rank == 1 && step >= 3 && tensor == 1 && result == "parameters";
                      return usual(rank, step, result, tensor) ^ (drifts ? 1U : 0U);
                  }});
    ASSERT_TRUE(verdict.between_ranks);
    EXPECT_EQ(verdict.between_ranks->step, 3);
    EXPECT_EQ(verdict.between_ranks->result, "parameters");
    EXPECT_EQ(verdict.between_ranks->tensor, "b");
    EXPECT_EQ(verdict.between_ranks->ranks, std::vector<int>{1});
    EXPECT_TRUE(
        contains(text_report(verdict), "DIFFER, first at step 3, parameters of rank 1, tensor b\n"));
    EXPECT_TRUE(contains(text_report(verdict), "start=3, steps=1"));
    EXPECT_TRUE(contains(text_report(verdict), "parameters: 1 of 2 tensors at that step"));
}

TEST_F(PrintsTest, TwoRunsGoTogetherAsFarAsTheyDo) {
    const PrintsVerdict same = compared({.name = "a"}, {.name = "b"});
    EXPECT_TRUE(same.same());
    EXPECT_EQ(same.together, 4);
    // The gradient of a rank precedes what follows from it.
    const PrintsVerdict verdict =
        compared({.name = "a"},
                 {.name = "b", .held = [](int rank, Index step, const std::string& result, int tensor) {
                      const bool other = step >= 3 && (result == "parameters" || rank == 2);
                      return usual(rank, step, result, tensor) + (other ? 7U : 0U);
                  }});
    ASSERT_TRUE(verdict.between_runs);
    EXPECT_EQ(verdict.together, 2);
    EXPECT_EQ(verdict.between_runs->step, 3);
    EXPECT_EQ(verdict.between_runs->result, "gradient");
    EXPECT_EQ(verdict.between_runs->ranks, std::vector<int>{2});
    EXPECT_TRUE(contains(text_report(verdict),
                         "the same through step 2; DIFFER first at step 3, gradient of rank 2, tensor a"));
    EXPECT_TRUE(contains(text_report(verdict), "parameters: 2 of 2 tensors"));
}

TEST_F(PrintsTest, OfEverySoManiethStepAllSinceTheLastThatWasTheSameAreToBeRecorded) {
    const Held drift = [](int rank, Index step, const std::string& result, int tensor) {
        const bool drifts = rank == 1 && step >= 100 && result == "parameters";
        return usual(rank, step, result, tensor) ^ (drifts ? 1U : 0U);
    };
    const PrintsVerdict verdict = compared({.name = "run", .steps = 200, .every = 50, .held = drift});
    ASSERT_TRUE(verdict.between_ranks);
    EXPECT_TRUE(contains(text_report(verdict), "record the 50 steps up to there in full"));
    EXPECT_TRUE(contains(text_report(verdict), "start=51, steps=50)"));
    const Run usual_run{.name = "a", .steps = 200, .every = 20};
    const PrintsVerdict runs = compared(usual_run, {.name = "b", .steps = 200, .every = 20, .held = drift});
    EXPECT_EQ(runs.together, 80);
    EXPECT_TRUE(contains(text_report(runs), "start=81, steps=20)"));
}

TEST_F(PrintsTest, AStepOfOneRunAloneIsNotCompared) {
    const PrintsVerdict verdict = compared({.name = "a", .steps = 4}, {.name = "b", .steps = 2});
    EXPECT_TRUE(verdict.same());
    EXPECT_EQ(verdict.together, 2);
}

TEST_F(PrintsTest, OtherNumbersOfRanksShareWhatIsReplicated) {
    const PrintsVerdict verdict = compared({.name = "a", .workers = 3}, {.name = "b", .workers = 2});
    EXPECT_TRUE(verdict.same());
    EXPECT_TRUE(contains(text_report(verdict), "not in both runs, or not of as many ranks: gradient"));
}

TEST_F(PrintsTest, AProgramThatDiedLeavesWhatItWrote) {
    const PrintsVerdict verdict = compared({.name = "run", .end = R"({"step":5,"learn)"});
    EXPECT_TRUE(verdict.same());
    EXPECT_TRUE(
        contains(text_report(verdict), "run.rank0.prints ends in the midst of a line, after step 4"));
}

TEST_F(PrintsTest, WhatIsNoRunIsRefusedInOneLine) {
    const std::string good = head(3, 0) + "\n";
    const auto replaced = [](std::string text, const std::string& old, const std::string& by) {
        return text.replace(text.find(old), old.size(), by);
    };
    EXPECT_TRUE(contains(refused(""), "there is nothing in it"));
    EXPECT_TRUE(contains(refused("rubbish\n"), "line 1 is not JSON"));
    EXPECT_TRUE(contains(refused(replaced(good, "\"1\"", "\"2\"")), "version is '2'"));
    EXPECT_TRUE(
        contains(refused(replaced(good, "\"rank\":0", "\"rank\":3")), "rank is 3; it is from 0 to 2"));
    EXPECT_TRUE(contains(refused(replaced(good, "[\"parameters\"]", "[\"weights\"]")),
                         "which is not among the results"));
    EXPECT_TRUE(contains(refused(replaced(good, "\"gradient\"", "\"step\"")), "a result is called 'step'"));
    const std::string line = R"({"step":1,"learning_rate":1,"gradient":")" + hex(1) + hex(2) +
                             R"(","parameters":")" + hex(1) + hex(2) + "\"}\n";
    EXPECT_EQ(refused(good + line), "it was taken");
    EXPECT_TRUE(contains(refused(good + line + line), "line 3: step 1 after step 1"));
    EXPECT_TRUE(contains(refused(good + replaced(line, hex(2), "")),
                         "line 2: gradient has 16 digits; 2 tensors have 32"));
    EXPECT_TRUE(contains(refused(good + replaced(line, hex(2), "000000000000000g")),
                         "tensor 1 is not hexadecimal"));
    EXPECT_TRUE(contains(refused(good + replaced(line, "\"step\":1", "\"step\":1,\"gradiant\":0")),
                         "\"gradiant\""));
}

TEST_F(PrintsTest, FilesOfSeveralRunsAreNotOneRun) {
    const auto paths = write({.name = "a"});
    EXPECT_THROW(static_cast<void>(read_run({paths[0], paths[0]})), Error);
    const auto others = write({.name = "b", .workers = 2});
    EXPECT_THROW(static_cast<void>(read_run({paths[0], others[1]})), Error);
    EXPECT_THROW(static_cast<void>(compare_prints(read_run({paths[0]}), {})), Error)
        << "nothing to compare";
    EXPECT_THROW(static_cast<void>(compare_prints(read_run({paths[0]}), read_run({others[1]}))), Error);
}

} // namespace
} // namespace truestep::verify

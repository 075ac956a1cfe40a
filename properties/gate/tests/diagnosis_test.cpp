// Tests the guess at a finding's known bug: its lines, its cleanup, and guesses that crash or hang.
#include "diagnosis.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <truestep/gate/group.hpp>

namespace truestep::gate {
namespace {

using Lines = std::vector<std::string>;

/// A difference at step 3, or a broken rule.
class Found final : public Finding {
  public:
    explicit Found(std::string phase, bool is_told = true) : phase_(std::move(phase)), told_(is_told) {}
    std::string message() const override { return "wrong"; }
    nlohmann::ordered_json first() const override { return {{"step", 3}, {"phase", phase_}}; }
    bool save(const std::filesystem::path& path, const std::string& /*source*/) const override {
        if (told_)
            std::ofstream(path) << "a trace";
        return told_;
    }

  private:
    std::string phase_;
    bool told_;
};

System explaining(std::function<Lines(const std::filesystem::path&, problem::Index)> guess) {
    System system;
    system.what_fits = [guess = std::move(guess)](const std::filesystem::path& trace,
                                                  const FirstDifference& parted, Gradients gradients) {
        EXPECT_EQ(gradients, Gradients::synthetic);
        return guess(trace, parted.step);
    };
    return system;
}

class Diagnosis : public testing::Test {
  protected:
    Diagnosis() : scratch_(scratch_folder(*group_)) {}

    std::shared_ptr<const Group> group_ = make_thread_group(std::chrono::seconds(10));
    std::string scratch_;
};

TEST_F(Diagnosis, SaysWhatTheSystemSaysOfTheTraceAndLeavesNone) {
    const System system = explaining([](const std::filesystem::path& trace, problem::Index step) {
        // Longer than the parent waits between two looks.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return std::filesystem::exists(trace) && step == 3 ? Lines{"one", "two"} : Lines{};
    });
    EXPECT_EQ(what_fits(system, Found("residual"), "a command"), (Lines{"one", "two"}));
    EXPECT_TRUE(std::filesystem::is_empty(scratch_));
}

TEST_F(Diagnosis, ABrokenRuleOrARunThatIsNotToldHasNone) {
    const System system = explaining([](const auto&, problem::Index) { return Lines{"one"}; });
    EXPECT_TRUE(what_fits(system, Found(""), "a command").empty());
    EXPECT_TRUE(what_fits(system, Found("residual", false), "a command").empty());
}

TEST_F(Diagnosis, AMistakeThatThrowsCrashesOrHangsCostsTheGuessAlone) {
    const System throws =
        explaining([](const auto&, problem::Index) -> Lines { throw std::runtime_error("no"); });
    EXPECT_TRUE(what_fits(throws, Found("residual"), "a command").empty());
    const System crashes = explaining([](const auto&, problem::Index) -> Lines { std::_Exit(9); });
    EXPECT_TRUE(what_fits(crashes, Found("residual"), "a command").empty());
    const System hangs = explaining([](const auto&, problem::Index) {
        std::this_thread::sleep_for(std::chrono::minutes(5));
        return Lines{"too late"};
    });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(what_fits(hangs, Found("residual"), "a command", 0.5).empty());
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(400))
        << "it was given its time";
    EXPECT_TRUE(std::filesystem::is_empty(scratch_));
}

} // namespace
} // namespace truestep::gate

// The report of a failure: its place, its drawing, its trace.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/verify/scape/verify_trace.hpp>

#include "search_support.hpp"

namespace truestep::properties::scape {
namespace {

using distributed::Communicator;
using gate::failure_json;
using gate::failure_text;
using gate::SearchResult;

/// The last rank's parameters drift from the others' after the third step.
class Drifts final : public Changed {
  public:
    Drifts(const Setup& setup, Communicator& communicator)
        : Changed(setup, communicator), last_(communicator.rank() == communicator.size() - 1) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        Changed::step(gradient, learning_rate);
        ++step_;
    }
    ObservedState view() override {
        ObservedState view = Changed::view();
        if (last_ && step_ >= 3)
            view.parameters.at(7) = std::nextafter(view.parameters.at(7), 1e9F);
        return view;
    }

  private:
    bool last_;
    int step_ = 0;
};

TEST(Failure, IsToldWithItsPlaceAndDrawn) {
    const auto bug = planted::implementation(6, threads());
    const SearchResult result = search_for(*bug, "mask.on");
    ASSERT_TRUE(result.counterexample);
    const auto json = failure_json(*result.counterexample, "some.safetensors");
    EXPECT_EQ(json["trace"], "some.safetensors");
    EXPECT_EQ(json["case"], result.counterexample->line);
    EXPECT_EQ(json["first"]["step"], 1);
    EXPECT_EQ(json["first"]["tensor"], "a");
    const auto& drawing = json["drawing"];
    EXPECT_EQ(drawing["after"], "step 1");
    const Case run = parse_case(result.counterexample->line);
    std::string lanes;
    for (const auto& lane : drawing["lanes"]) {
        lanes += lane["name"].get<std::string>() + " ";
        EXPECT_EQ(lane["values"].size(), static_cast<std::size_t>(run.workers));
        EXPECT_EQ(lane["values"][0].size(), static_cast<std::size_t>(run.size()));
    }
    EXPECT_EQ(lanes, "mask gradient residual moment parameters ");
    EXPECT_EQ(drawing["lanes"][0]["kind"], "bits");
    EXPECT_NE(drawing["lanes"][2]["values"][0], drawing["lanes"][2]["expected"][0]);
    EXPECT_NE(failure_text(*result.counterexample).find("smallest case: "), std::string::npos);
}

TEST(Failure, ItsTraceIsRefusedByTheCheckerAndTheCleanOnePasses) {
    for (const int number : {0, 6, 12, 53}) {
        const auto implementation = planted::implementation(number, threads());
        Case run;
        run.tensors = {{"a", 12, false}, {"b", 5, true}};
        run.workers = 3;
        run.density = 0.3;
        run.steps = 4;
        run.beta1 = 0.9;
        run.data = number == 53 ? problem::DataClass::zeros : problem::DataClass::normal;
        Trial trial(*implementation, run);
        trial(trial.steps());
        const auto path = std::filesystem::path(testing::TempDir()) / "failure_test.safetensors";
        ASSERT_TRUE(save_trace(path, trial.runs().back(), "test"));
        const auto verdict = verify::scape::verify_trace(path, {});
        if (number == 0 || number == 53)
            EXPECT_EQ(verdict.first.has_value(), number != 0) << number;
        else
            EXPECT_EQ(verdict.status, verify::Status::failed) << number;
        std::filesystem::remove(path);
    }
}

TEST(Failure, ItsTraceShowsTheRankThatDrifts) {
    Case run;
    run.tensors = {{"a", 12, false}, {"b", 5, true}};
    run.workers = 3;
    run.density = 0.3;
    run.steps = 4;
    const auto implementation = made_by<Drifts>();
    Trial trial(*implementation, run);
    EXPECT_THROW(trial(trial.steps()), Violation) << "the gate sees it as well";
    const auto path = std::filesystem::path(testing::TempDir()) / "drift_test.safetensors";
    ASSERT_TRUE(save_trace(path, trial.runs().back(), "test"));
    const auto verdict = verify::scape::verify_trace(path, {});
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, 3);
    EXPECT_EQ(verdict.first->result, "parameters");
    EXPECT_EQ(verdict.first->rank, 2);
    EXPECT_EQ(verdict.first->index, 7);
    std::filesystem::remove(path);
}

TEST(Failure, ItsTraceEndsWithTheComingMaskWhateverFollowedTheLastStep) {
    const auto implementation = planted::implementation(0, threads());
    Case run;
    run.tensors = {{"a", 12, false}, {"b", 5, true}};
    run.workers = 3;
    run.density = 0.3;
    Trial trial(*implementation, run);
    Scenario scenario = trial.steps(run, 3);
    Action undo = scenario.actions.front();
    undo.kind = Action::Kind::undo;
    scenario.actions.push_back(undo);
    trial(scenario);
    const auto path = std::filesystem::path(testing::TempDir()) / "undo_test.safetensors";
    ASSERT_TRUE(save_trace(path, trial.runs().back(), "test"));
    EXPECT_EQ(verify::scape::verify_trace(path, {}).status, verify::Status::passed);
    std::filesystem::remove(path);
}

} // namespace
} // namespace truestep::properties::scape

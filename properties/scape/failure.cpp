// A counterexample: the violation, the values around, and a drawing of the shrunk problem.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <truestep/problem/text.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/property.hpp>
#include <truestep/properties/scape/recording.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "support.hpp"

namespace truestep::properties::scape {

namespace {

using gate::Lane;
using nlohmann::ordered_json;
using verify::Comparison;
using verify::Pair;

std::string hex(float value) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", bits_of(value));
    return text;
}

ordered_json pair_json(const Pair& pair) {
    return {{"coordinate", pair.index},        {"expected", shortest(pair.expected)},
            {"actual", shortest(pair.actual)}, {"expected_bits", hex(pair.expected)},
            {"actual_bits", hex(pair.actual)}, {"ok", pair.ok}};
}

ordered_json first_json(const Case& run, const verify::Divergence& divergence) {
    ordered_json json{{"step", divergence.step},
                      {"phase", divergence.result.empty() ? "" : divergence.phase},
                      {"result", divergence.result},
                      {"rank", divergence.rank},
                      {"tensor", ""},
                      {"index", divergence.index.value_or(-1)},
                      {"coordinate", divergence.index.value_or(-1)},
                      {"expected", ""},
                      {"actual", ""},
                      {"expected_bits", ""},
                      {"actual_bits", ""},
                      {"near", ordered_json::array()}};
    Index begin = 0;
    for (const problem::Tensor& tensor : run.tensors) {
        if (divergence.index && *divergence.index >= begin && *divergence.index < begin + tensor.size) {
            json["tensor"] = tensor.name;
            json["index"] = *divergence.index - begin;
        }
        begin += tensor.size;
    }
    const Comparison& comparison = divergence.comparison;
    if (!comparison.first.empty()) {
        const ordered_json bad = pair_json(comparison.first.front());
        for (const char* key : {"expected", "actual", "expected_bits", "actual_bits"})
            json[key] = bad[key];
    }
    for (const auto* part : {&comparison.before, &comparison.first, &comparison.last})
        for (const Pair& pair : *part)
            json["near"].push_back(pair_json(pair));
    return json;
}

/// The action whose outcome is drawn: the one that failed, or the last.
std::size_t drawn_action(const Counterexample& found, const RunRecording& history) {
    const std::size_t last = history.after.size() - 1;
    if (found.violation.action)
        return std::min(last, *found.violation.action);
    if (!found.violation.divergence || found.violation.divergence->step < 1)
        return last;
    return std::min(last, static_cast<std::size_t>(found.violation.divergence->step - 1));
}

Lane::Values mask_texts(const ObservedState& view, Index size) {
    Lane::Values texts;
    for (Index index = 0; index < size; ++index)
        texts.emplace_back(selected(view.mask, index) ? "1" : "0");
    return texts;
}

/// The lanes from top to bottom.
std::vector<Lane> lanes_of(const RecordedRun& ran, std::size_t action, Index size) {
    const std::vector<ObservedState>& views = ran.history.after[action].views;
    const RunRecording reference = reference_implementation()->run(ran.scenario);
    const auto seen = [&](const char* name, const char* title, Lane::Kind kind, auto values_of) {
        Lane lane{name, title, kind};
        for (std::size_t rank = 0; rank < views.size(); ++rank) {
            lane.values.push_back(values_of(views[rank]));
            const bool known =
                action < reference.after.size() && rank < reference.after[action].views.size();
            lane.expected.push_back(known ? values_of(reference.after[action].views[rank])
                                          : Lane::Values());
        }
        return lane;
    };
    Lane given{"gradient", "what a rank was given"};
    const std::vector<float> nothing(static_cast<std::size_t>(size), 0.0F); // where no step was asked for
    const auto& gradients = ran.scenario.actions[action].gradients;
    for (std::size_t rank = 0; rank < views.size(); ++rank)
        given.values.push_back(gate::texts(rank < gradients.size() ? gradients[rank] : nothing));
    std::vector<Lane> lanes;
    if (!views.front().mask.empty())
        lanes.push_back(seen("mask", "selected by the mask", Lane::Kind::bits,
                             [size](const ObservedState& view) { return mask_texts(view, size); }));
    lanes.push_back(std::move(given));
    if (!views.front().residual.empty())
        lanes.push_back(seen("residual", "what a rank has yet to send", Lane::Kind::floats,
                             [](const ObservedState& view) { return gate::texts(view.residual); }));
    if (!views.front().moment.empty())
        lanes.push_back(seen("moment", "the first moment", Lane::Kind::floats,
                             [](const ObservedState& view) { return gate::texts(view.moment); }));
    lanes.push_back(seen("parameters", "after the step", Lane::Kind::floats,
                         [](const ObservedState& view) { return gate::texts(view.parameters); }));
    return lanes;
}

std::optional<gate::Drawing> drawing_of(const Counterexample& found) {
    if (found.runs.empty())
        return std::nullopt;
    const RecordedRun& ran = found.runs.back();
    const Index size = found.run.size();
    if (ran.history.after.empty() || size > gate::Drawing::most_coordinates)
        return std::nullopt;
    const std::size_t action = drawn_action(found, ran.history);

    // An earlier restart may have changed the number of ranks.
    const problem::Problem* problem = &ran.scenario.setup.problem;
    for (std::size_t earlier = 0; earlier <= action; ++earlier)
        if (ran.scenario.actions[earlier].kind == Action::Kind::restart)
            problem = &*ran.scenario.actions[earlier].problem;
    if (problem->workers > gate::Drawing::most_ranks)
        return std::nullopt;
    gate::Drawing drawing{"step " + std::to_string(action + 1), size,
                          static_cast<int>(ran.history.after[action].views.size())};
    Index begin = 0;
    for (const problem::Tensor& tensor : found.run.tensors) {
        drawing.tensors.push_back(
            {tensor.name, begin, begin + tensor.size, tensor.always_dense ? "always dense" : ""});
        begin += tensor.size;
    }
    for (const problem::Segment& segment : problem->segments)
        drawing.segments.push_back({segment.begin, segment.end, segment.owner});
    drawing.lanes = lanes_of(ran, action, size);
    return drawing;
}

std::int64_t steps_of(const std::deque<RecordedRun>& runs) {
    std::int64_t most = 0;
    for (const RecordedRun& ran : runs)
        most = std::max(most, static_cast<std::int64_t>(
                                  std::ranges::count_if(ran.scenario.actions, [](const Action& action) {
                                      return action.kind == Action::Kind::step;
                                  })));
    return most;
}

int most_ranks(const Counterexample& found) {
    int most = found.run.workers;
    for (const RecordedRun& ran : found.runs)
        for (const Action& action : ran.scenario.actions)
            if (action.problem)
                most = std::max(most, action.problem->workers);
    return most;
}

/// A counterexample as the gate's finding.
class Failure final : public gate::Finding {
  public:
    explicit Failure(Counterexample found) : found_(std::move(found)) {}

    std::string message() const override { return found_.violation.what(); }
    std::string details() const override {
        return found_.violation.divergence ? verify::details(found_.violation.divergence->comparison,
                                                             problem::Layout(found_.run.tensors), "    ")
                                           : std::string();
    }
    ordered_json first() const override {
        return found_.violation.divergence ? first_json(found_.run, *found_.violation.divergence)
                                           : ordered_json(nullptr);
    }
    std::optional<gate::Drawing> drawing() const override { return drawing_of(found_); }
    Size size() const override { return {found_.run.size(), most_ranks(found_), steps_of(found_.runs)}; }
    bool save(const std::filesystem::path& path, const std::string& source) const override {
        return !found_.runs.empty() && save_trace(path, found_.runs.back(), source);
    }
    std::string lacks(const std::filesystem::path& trace) const override {
        return verify::scape::verify_trace(trace, {}).first
                   ? ""
                   : " (all ranks' copies up to the first restart, which do not show this failure)";
    }

  private:
    Counterexample found_;
};

} // namespace

gate::CaseJudgement judged(const Implementation& implementation, const Property& property,
                           const Case& run) {
    Trial trial(implementation, run);
    std::optional<Violation> violation;
    try {
        for (const auto& one : property.at_least)
            trial.classify(one.kind.is(run), one.kind);
        property.holds(trial);
    } catch (const Violation& found) {
        violation = found;
    } catch (const std::exception& error) {
        violation = Violation(std::string(gate::could_not_judge) + error.what());
    }
    gate::CaseJudgement result = trial.judged();
    if (violation)
        result.finding = std::make_shared<Failure>(Counterexample{run, *violation, trial.runs()});
    return result;
}

} // namespace truestep::properties::scape

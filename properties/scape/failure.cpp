// A counterexample: what does not hold, the values around, the shrunk problem drawn.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <scape/problem/text.hpp>
#include <scape/properties/implementations.hpp>
#include <scape/properties/property.hpp>
#include <scape/properties/recording.hpp>
#include <scape/verify/comparator.hpp>
#include <scape/verify/results.hpp>
#include <scape/verify/verify_trace.hpp>

#include "support.hpp"

namespace scape::properties {

namespace {

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

ordered_json numbers(const std::vector<float>& values) {
    ordered_json json = ordered_json::array();
    for (const float value : values)
        json.push_back(shortest(value));
    return json;
}

ordered_json view_json(const View& view, Index size) {
    std::string mask;
    for (Index index = 0; index < size; ++index)
        mask += selected(view.mask, index) ? '1' : '0';
    return {{"mask", mask},
            {"residual", numbers(view.residual)},
            {"moment", numbers(view.moment)},
            {"parameters", numbers(view.parameters)}};
}

/// The action whose outcome is drawn: the one that failed, or the last.
std::size_t drawn_action(const Counterexample& found, const History& history) {
    const std::size_t last = history.after.size() - 1;
    if (found.violation.action)
        return std::min(last, *found.violation.action);
    if (!found.violation.divergence || found.violation.divergence->step < 1)
        return last;
    return std::min(last, static_cast<std::size_t>(found.violation.divergence->step - 1));
}

ordered_json drawing_json(const Counterexample& found) {
    constexpr Index most_coordinates = 64;
    constexpr std::size_t most_ranks = 16;
    if (found.runs.empty())
        return nullptr;
    const Ran& ran = found.runs.back();
    const Index size = found.run.size();
    if (ran.history.after.empty() || size > most_coordinates)
        return nullptr;
    const std::size_t action = drawn_action(found, ran.history);
    const Snapshot& snapshot = ran.history.after[action];
    if (snapshot.views.size() > most_ranks)
        return nullptr;

    // The problem may have been restarted with other ranks before.
    const problem::Problem* problem = &ran.scenario.setup.problem;
    for (std::size_t earlier = 0; earlier <= action; ++earlier)
        if (ran.scenario.actions[earlier].kind == Action::Kind::restart)
            problem = &*ran.scenario.actions[earlier].problem;
    ordered_json json{{"size", size},
                      {"workers", problem->workers},
                      {"step", static_cast<Index>(action) + 1},
                      {"tensors", ordered_json::array()},
                      {"segments", ordered_json::array()},
                      {"ranks", ordered_json::array()}};
    Index begin = 0;
    for (const problem::Tensor& tensor : found.run.tensors) {
        json["tensors"].push_back({{"name", tensor.name},
                                   {"begin", begin},
                                   {"end", begin + tensor.size},
                                   {"always_dense", tensor.always_dense}});
        begin += tensor.size;
    }
    for (const problem::Segment& segment : problem->segments)
        json["segments"].push_back(
            {{"begin", segment.begin}, {"end", segment.end}, {"owner", segment.owner}});
    const History expected = reference_implementation()->run(ran.scenario);
    for (std::size_t rank = 0; rank < snapshot.views.size(); ++rank) {
        ordered_json of_rank = view_json(snapshot.views[rank], size);
        const auto& gradients = ran.scenario.actions[action].gradients;
        of_rank["gradient"] = rank < gradients.size()
                                  ? numbers(gradients[rank])
                                  : numbers(std::vector<float>(snapshot.views[rank].residual.size(), 0.0F));
        of_rank["expected"] = nullptr;
        if (action < expected.after.size() && rank < expected.after[action].views.size())
            of_rank["expected"] = view_json(expected.after[action].views[rank], size);
        json["ranks"].push_back(of_rank);
    }
    return json;
}

std::int64_t steps_of(const std::deque<Ran>& runs) {
    std::int64_t most = 0;
    for (const Ran& ran : runs)
        most = std::max(most, static_cast<std::int64_t>(
                                  std::ranges::count_if(ran.scenario.actions, [](const Action& action) {
                                      return action.kind == Action::Kind::step;
                                  })));
    return most;
}

int most_ranks(const Counterexample& found) {
    int most = found.run.workers;
    for (const Ran& ran : found.runs)
        for (const Action& action : ran.scenario.actions)
            if (action.problem)
                most = std::max(most, action.problem->workers);
    return most;
}

/// A counterexample as the gate tells of it.
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
    ordered_json drawing() const override { return drawing_json(found_); }
    Size size() const override { return {found_.run.size(), most_ranks(found_), steps_of(found_.runs)}; }
    bool save(const std::filesystem::path& path, const std::string& source) const override {
        return !found_.runs.empty() && save_trace(path, found_.runs.back(), source);
    }
    std::string lacks(const std::filesystem::path& trace) const override {
        return verify::verify_trace(trace, {}).first
                   ? ""
                   : " (all ranks' copies up to the first restart, which do not show this failure)";
    }

  private:
    Counterexample found_;
};

} // namespace

gate::Judged judged(const Implementation& implementation, const Property& property, const Case& run) {
    Trial trial(implementation, run);
    std::optional<Violation> violation;
    try {
        property.holds(trial);
    } catch (const Violation& found) {
        violation = found;
    } catch (const std::exception& error) {
        violation = Violation(std::string("it could not be judged: ") + error.what());
    }
    gate::Judged result{nullptr, trial.kinds(), trial.counts()};
    if (violation)
        result.finding = std::make_shared<Failure>(Counterexample{run, *violation, trial.runs()});
    return result;
}

} // namespace scape::properties

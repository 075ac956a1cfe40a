// Tries each known bug: which of them makes what was recorded?
#include <truestep/properties/scape/planted/diagnosis.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <truestep/gate/group.hpp>
#include <truestep/gate/hypotheses.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/planted/bugs.hpp>
#include <truestep/properties/scape/planted/implementation.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "replay.hpp"

namespace truestep::properties::scape::planted {

namespace {

using gate::SeenBits;
using problem::Index;
using verify::scape::Result;

template <class Values>
std::vector<std::uint32_t> bits(const Values& values) {
    return gate::seen_bits(values);
}

template <class Values>
std::vector<std::uint32_t> bits(const std::optional<Values>& values) {
    return values ? gate::seen_bits(*values) : std::vector<std::uint32_t>();
}

/// The recorded results after a step. What must be the same on all ranks is each rank's own copy if the
/// trace has them, else one.
SeenBits seen(const verify::scape::TraceReader& trace, Index step, const Replay& replay) {
    const auto ranks = static_cast<std::size_t>(trace.head().problem.workers);
    // A window would leave out what a mask holds beyond the last coordinate.
    const auto part = replay.whole ? std::nullopt : std::optional(replay.window);
    SeenBits all;
    const auto add = [&](const auto& recorded) {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            all.push_back(!recorded.copies.empty() ? bits(recorded.copies[rank])
                          : rank == 0              ? bits(recorded.shared)
                                                   : std::vector<std::uint32_t>());
    };
    for (const Result result : {Result::mask, Result::next_mask})
        if (result == Result::next_mask && replay.in_segment)
            all.resize(all.size() + ranks); // the choice is made over the whole segment
        else
            add(trace.replicated_mask(kind_of(result), step, part));
    for (const Result result : {Result::first_moment, Result::parameters})
        add(trace.replicated_values(kind_of(result), step, part));
    for (std::size_t rank = 0; rank < ranks; ++rank)
        all.push_back(bits(trace.values(kind_of(Result::residual), step, static_cast<int>(rank), part)));
    return all;
}

/// The results of a run after that step; nothing if it did not complete. If the run goes on, the next mask
/// is the one that was used, as a recorder sees it: the coming one may differ. After a halt no results are
/// available.
std::optional<SeenBits> seen(const RunRecording& history, std::size_t step, std::size_t actions) {
    if (!history.error.empty() || history.after.size() != actions || history.coming.empty())
        return std::nullopt;
    const auto& views = history.after[step - 1].views;
    const bool goes_on =
        step < actions && history.after[step].outcomes.front().kind == Outcome::Kind::taken;
    SeenBits all;
    for (const auto& view : views)
        all.push_back(bits(view.mask));
    for (std::size_t rank = 0; rank < views.size(); ++rank)
        all.push_back(bits(goes_on ? history.after[step].views[rank].mask : history.coming[rank]));
    for (const auto& view : views)
        all.push_back(bits(view.moment));
    for (const auto& view : views)
        all.push_back(bits(view.parameters));
    for (const auto& view : views)
        all.push_back(bits(view.residual));
    return all;
}

bool same_gradients_everywhere(const Scenario& scenario) {
    return scenario.setup.problem.workers > 1 &&
           std::ranges::all_of(scenario.actions, [](const Action& action) {
               return std::ranges::all_of(action.gradients, [&](const std::vector<float>& gradient) {
                   return bits(gradient) == bits(action.gradients.front());
               });
           });
}

std::vector<gate::Explanation> what_fits(const verify::scape::TraceReader& trace, Index step,
                                         const Replay& replay, const Scenario& scenario) {
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const Start start = start_of(trace, replay);
    const auto run = [&](int number) {
        return seen(implementation(number, group, start)->run(scenario),
                    static_cast<std::size_t>(step - replay.begin), scenario.actions.size());
    };
    return gate::explanations({bugs(), trace.head().problem.workers, seen(trace, step, replay), run});
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, const gate::FirstDifference& parted,
                                   gate::Gradients gradients) {
    const verify::scape::TraceReader trace(path);
    const problem::Problem& problem = trace.head().problem;
    if (problem.algorithm != problem::Algorithm::scape)
        return {};
    const ReplayChoice choice = choose_replays(trace, parted);
    if (choice.replays.empty())
        return {choice.why};
    std::vector<std::string> lines;
    std::vector<gate::Explanation> fits;
    // If nothing fits, the report is about the replay in which most is tried.
    const Replay* with = &choice.replays.front();
    if (with->in_segment && choice.replays.size() > 1)
        with = &choice.replays[1];
    for (const Replay& replay : choice.replays) {
        const auto scenario = scenario_of(trace, replay);
        if (!scenario)
            continue; // with owners in turn a part may still be one rank's
        const bool first = &replay == &choice.replays.front();
        if (first && gradients == gate::Gradients::recorded && same_gradients_everywhere(*scenario))
            lines.push_back("all ranks were given the same gradients, at every step" +
                            std::string(replay.whole && replay.begin == 0 ? "" : " that was looked at") +
                            ": averaged before? The step does that itself, on the mask");
        auto found = what_fits(trace, parted.step, replay, *scenario);
        const bool complete = !found.empty() && found.front().complete;
        if (complete || fits.empty()) {
            with = found.empty() ? with : &replay;
            fits = std::move(found);
        }
        if (complete)
            break;
    }
    for (gate::Explanation& fit : fits)
        lines.push_back(std::move(fit.line));
    if (const std::string scope = told(trace, *with); !scope.empty())
        lines.push_back((fits.empty() ? "no known bug matches; " : "") + scope);
    return lines;
}

} // namespace truestep::properties::scape::planted

// Each planted mistake is a hypothesis: which of them makes what was recorded?
#include <scape/planted/diagnosis.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <scape/gate/group.hpp>
#include <scape/gate/hypotheses.hpp>
#include <scape/planted/bugs.hpp>
#include <scape/planted/implementation.hpp>
#include <scape/problem/error.hpp>
#include <scape/verify/trace.hpp>

namespace scape::planted {

namespace {

using gate::SeenBits;
using problem::Index;
using properties::Action;
using properties::History;
using properties::Outcome;
using properties::Scenario;
using verify::Result;

template <class Values>
std::vector<std::uint32_t> bits(const Values& values) {
    return gate::seen_bits(values);
}

template <class Values>
std::vector<std::uint32_t> bits(const std::optional<Values>& values) {
    return values ? gate::seen_bits(*values) : std::vector<std::uint32_t>();
}

/// Of what has to be the same on all ranks, each rank's own copy where the trace has them, else one.
SeenBits seen(const verify::TraceReader& trace, Index step) {
    const auto ranks = static_cast<std::size_t>(trace.head().problem.workers);
    SeenBits all;
    const auto add = [&](const auto& recorded) {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            all.push_back(!recorded.copies.empty() ? bits(recorded.copies[rank])
                          : rank == 0              ? bits(recorded.shared)
                                                   : std::vector<std::uint32_t>());
    };
    for (const Result result : {Result::mask, Result::next_mask})
        add(trace.replicated_mask(kind_of(result), step));
    for (const Result result : {Result::first_moment, Result::parameters})
        add(trace.replicated_values(kind_of(result), step));
    for (std::size_t rank = 0; rank < ranks; ++rank)
        all.push_back(bits(trace.values(kind_of(Result::residual), step, static_cast<int>(rank))));
    return all;
}

/// After that step; nothing if the run did not come to its end. A mask that is shown as the coming one need
/// not be the one that is then used, and what was used is what a recorder sees. Of who halts none is known.
std::optional<SeenBits> seen(const History& history, std::size_t step, std::size_t actions) {
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

/// Each rank's segments have to lie side by side; somebody else's may not.
std::optional<std::vector<problem::Range>> ranges_of(const problem::Problem& problem) {
    std::vector<problem::Range> ranges(static_cast<std::size_t>(problem.workers));
    Index begin = 0;
    int owner = 0;
    for (const problem::Segment& segment : problem.segments) {
        if (segment.owner < owner)
            return std::nullopt;
        for (; owner < segment.owner; begin = segment.begin)
            ranges[static_cast<std::size_t>(owner++)] = {begin, segment.begin};
    }
    for (; owner < problem.workers; begin = problem.layout.size())
        ranges[static_cast<std::size_t>(owner++)] = {begin, problem.layout.size()};
    return ranges;
}

/// The recorded run up to so many steps, for an implementation to be put through.
std::optional<Scenario> scenario_of(const verify::TraceReader& trace, Index steps) {
    const verify::TraceHead& head = trace.head();
    auto ranges = ranges_of(head.problem);
    if (!ranges)
        return std::nullopt;
    Scenario scenario{{head.problem, std::move(*ranges), head.schedule(), head.initial_parameters}, {}};
    for (Index t = 1; t <= steps; ++t) {
        Action action;
        action.learning_rate = head.learning_rate[static_cast<std::size_t>(t - 1)];
        for (int rank = 0; rank < head.problem.workers; ++rank)
            action.gradients.push_back(trace.gradient(t, rank));
        scenario.actions.push_back(std::move(action));
    }
    return scenario;
}

/// What a run has that does not begin at its start, or is a sample.
Start start_of(const verify::TraceReader& trace) {
    Start start;
    start.norm = trace.head().norm;
    if (trace.head().sampled)
        start.exponent = trace.head().exponent;
    else if (trace.head().extent.begin > 0 && !trace.head().exponent.empty())
        start.exponent = {trace.head().exponent.front()};
    if (trace.head().extent.begin == 0)
        return start;
    verify::InitialState held = trace.initial_state();
    start.step = trace.head().extent.begin;
    start.moment = std::move(held.first_moment);
    start.residual = std::move(held.residual);
    start.mask = std::move(held.mask);
    return start;
}

bool same_gradients_everywhere(const Scenario& scenario) {
    return scenario.setup.problem.workers > 1 &&
           std::ranges::all_of(scenario.actions, [](const Action& action) {
               return std::ranges::all_of(action.gradients, [&](const std::vector<float>& gradient) {
                   return bits(gradient) == bits(action.gradients.front());
               });
           });
}

/// Those that a run of this problem can have.
std::vector<gate::Mistake> hypotheses() {
    std::vector<gate::Mistake> all;
    for (const Description& bug : bugs())
        if (bug.number <= bugs_of_section_10 ||
            bug.number >= first_that_shipped) // else of code for devices
            all.push_back({bug.number, bug.name, bug.shows});
    return all;
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, Index step,
                                   gate::Gradients gradients) {
    const verify::TraceReader trace(path);
    const problem::Problem& problem = trace.head().problem;
    if (problem.algorithm != problem::Algorithm::scape)
        return {};
    const Index rank_steps = step * problem.workers;
    if (const std::string why = gate::too_large_to_try(problem.layout.size(), rank_steps); !why.empty())
        return {why};
    const auto scenario = scenario_of(trace, std::min(step + 1, trace.head().steps()));
    if (!scenario)
        return {};
    std::vector<std::string> lines;
    if (gradients == gate::Gradients::recorded && same_gradients_everywhere(*scenario))
        lines.emplace_back("all ranks were given the same gradients, at every step: averaged before? The "
                           "step does that itself, on the mask");
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const Start start = start_of(trace);
    const auto run = [&](int number) {
        return seen(implementation(number, group, start)->run(*scenario), static_cast<std::size_t>(step),
                    scenario->actions.size());
    };
    for (std::string& line : gate::what_fits({hypotheses(), problem.workers, seen(trace, step), run}))
        lines.push_back(std::move(line));
    return lines;
}

} // namespace scape::planted

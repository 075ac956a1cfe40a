// Each planted mistake is a hypothesis: which of them makes what was recorded?
#include <scape/planted/diagnosis.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <scape/gate/group.hpp>
#include <scape/planted/bugs.hpp>
#include <scape/planted/implementation.hpp>
#include <scape/problem/error.hpp>
#include <scape/verify/trace.hpp>

namespace scape::planted {

namespace {

using problem::Index;
using properties::Action;
using properties::History;
using properties::Outcome;
using properties::Scenario;
using verify::Result;

/// The values that can be seen after a step, one vector after another, as bits; empty where one is not
/// known.
using Seen = std::vector<std::vector<std::uint32_t>>;

template <class Values>
std::vector<std::uint32_t> bits(const Values& values) {
    std::vector<std::uint32_t> result;
    result.reserve(values.size());
    for (const auto value : values)
        if constexpr (sizeof(value) == sizeof(std::uint32_t))
            result.push_back(std::bit_cast<std::uint32_t>(value));
        else
            result.push_back(value);
    return result;
}

template <class Values>
std::vector<std::uint32_t> bits(const std::optional<Values>& values) {
    return values ? bits(*values) : std::vector<std::uint32_t>();
}

/// Of what has to be the same on all ranks, each rank's own copy where the trace has them, else one.
Seen seen(const verify::TraceReader& trace, Index step) {
    const auto ranks = static_cast<std::size_t>(trace.head().problem.workers);
    Seen all;
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
std::optional<Seen> seen(const History& history, std::size_t step, std::size_t actions) {
    if (!history.error.empty() || history.after.size() != actions || history.coming.empty())
        return std::nullopt;
    const auto& views = history.after[step - 1].views;
    const bool goes_on =
        step < actions && history.after[step].outcomes.front().kind == Outcome::Kind::taken;
    Seen all;
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

struct Fit {
    Index wrong = 0;     ///< values that are not the right ones
    Index explained = 0; ///< of those, which the hypothesis makes
    Index spoilt = 0;    ///< values that are right, and with it would not be
};

Fit fit(const Seen& recorded, const Seen& right, const Seen& hypothesis) {
    Fit result;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
        if (right[i].size() != recorded[i].size())
            continue; // one of them is not known
        const bool known = hypothesis[i].size() == recorded[i].size();
        for (std::size_t at = 0; at < recorded[i].size(); ++at) {
            const bool wrong = recorded[i][at] != right[i][at];
            const bool made = known && recorded[i][at] == hypothesis[i][at];
            result.wrong += wrong ? 1 : 0;
            result.explained += wrong && made ? 1 : 0;
            result.spoilt += !wrong && !made ? 1 : 0;
        }
    }
    return result;
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
    Scenario scenario{{head.problem, std::move(*ranges), problem::DensitySchedule::recorded(head.density),
                       head.initial_parameters},
                      {}};
    for (Index t = 1; t <= steps; ++t) {
        Action action;
        action.learning_rate = head.learning_rate[static_cast<std::size_t>(t - 1)];
        for (int rank = 0; rank < head.problem.workers; ++rank)
            action.gradients.push_back(trace.gradient(t, rank));
        scenario.actions.push_back(std::move(action));
    }
    return scenario;
}

bool same_gradients_everywhere(const Scenario& scenario) {
    return scenario.setup.problem.workers > 1 &&
           std::ranges::all_of(scenario.actions, [](const Action& action) {
               return std::ranges::all_of(action.gradients, [&](const std::vector<float>& gradient) {
                   return bits(gradient) == bits(action.gradients.front());
               });
           });
}

/// For all hypotheses together.
constexpr std::chrono::seconds most_time(20);

std::string told(const Description& bug, const Fit& fit) {
    return "fits planted mistake " + std::to_string(bug.number) + ", " + bug.name + ": " +
           std::to_string(fit.explained) + " of " + std::to_string(fit.wrong) +
           " wrong values, bit for bit" +
           (fit.spoilt == 0 ? ""
                            : "; but it would make " + std::to_string(fit.spoilt) + " right ones wrong");
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, Index step,
                                   gate::Gradients gradients) {
    const verify::TraceReader trace(path);
    const problem::Problem& problem = trace.head().problem;
    if (problem.algorithm != problem::Algorithm::scape)
        return {};
    // A hundred hypotheses, each of so many values times steps, and of so many meetings of ranks: in
    // seconds.
    constexpr double most_values = 2e6;
    constexpr double most_meetings = 3000;
    const double rank_steps = static_cast<double>(step) * problem.workers;
    if (static_cast<double>(problem.layout.size()) * rank_steps > most_values || rank_steps > most_meetings)
        return {
            "no known mistake was tried: ranks x steps are more than 3000, or times parameters more than 2 "
            "million; record a smaller model, or a run that goes wrong sooner"};
    const auto scenario = scenario_of(trace, std::min(step + 1, trace.head().steps()));
    if (!scenario)
        return {};
    std::vector<std::string> lines;
    if (gradients == gate::Gradients::recorded && same_gradients_everywhere(*scenario))
        lines.emplace_back("all ranks were given the same gradients, at every step: averaged before? The "
                           "step does that itself, on the mask");
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const auto run = [&](int number) {
        return seen(implementation(number, group)->run(*scenario), static_cast<std::size_t>(step),
                    scenario->actions.size());
    };
    const Seen recorded = seen(trace, step);
    const auto right = run(0);
    if (!right)
        return lines;
    std::vector<std::pair<Fit, const Description*>> fits;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + most_time;
    std::size_t tried = 0;
    for (const Description& bug : bugs()) {
        if (bug.number > bugs_of_section_10 && bug.number < first_that_shipped)
            continue; // of code for devices
        if (Clock::now() > end) {
            lines.push_back("only " + std::to_string(tried) + " known mistakes were tried in " +
                            std::to_string(most_time.count()) + " s; a smaller run takes less");
            break;
        }
        ++tried;
        const auto made = run(bug.number);
        if (!made)
            continue;
        const Fit found = fit(recorded, *right, *made);
        // One that explains little explains nothing.
        if (found.wrong > 0 && 2 * found.explained > found.wrong && found.spoilt < found.explained)
            fits.emplace_back(found, &bug);
    }
    std::ranges::stable_sort(fits, [](const auto& one, const auto& two) {
        return one.first.explained - one.first.spoilt > two.first.explained - two.first.spoilt;
    });
    constexpr std::size_t most_told = 3;
    for (const auto& [found, bug] : std::span(fits).first(std::min(fits.size(), most_told)))
        lines.push_back(told(*bug, found));
    return lines;
}

} // namespace scape::planted

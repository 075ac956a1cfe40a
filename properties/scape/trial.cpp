// Judges a case of SCAPE: runs its scenarios, and compares ranks, bits, masks and states.
#include <truestep/properties/scape/property.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/verify/comparator.hpp>

#include "support.hpp"

namespace truestep::properties::scape {

using verify::Comparison;
using verify::Divergence;
using verify::scape::Phase;

Scenario Trial::steps(const Case& run, Index count) const {
    problem::Problem problem = problem_of(run);
    problem.algorithm = implementation_.algorithm();
    if (problem.algorithm == problem::Algorithm::adams) {
        problem.settings.clip_norm = 0.0; // section 3 has none, no payload and no groups
        problem.settings.payload = problem::Payload::fp32;
        problem.settings.groups.clear();
    }
    auto ranges = problem::ranges(problem.layout, run.workers, run.partition);
    Scenario scenario{{std::move(problem), std::move(ranges), schedule_of(run), parameters_of(run)}, {}};
    for (Index step = 1; step <= count; ++step)
        scenario.actions.push_back(step_with(run, run.workers, step));
    return scenario;
}

const RunRecording& Trial::failing(Scenario scenario) {
    RunRecording history = implementation_.run(scenario);
    const std::vector<float>& parameters = scenario.setup.parameters;
    ObservedState start{0, parameters, std::vector<float>(parameters.size(), 0.0F),
                        std::vector<float>(parameters.size(), 0.0F),
                        std::vector<std::uint8_t>((parameters.size() + 7) / 8, 0)};
    runs_.push_back({std::move(scenario), std::move(history), std::move(start)});
    return runs_.back().history;
}

const RunRecording& Trial::tolerant(Scenario scenario) {
    const RunRecording& ran = failing(std::move(scenario));
    if (!ran.error.empty())
        throw Violation("the run ended before its end: " + ran.error);
    if (ran.after.size() != runs_.back().scenario.actions.size())
        throw Violation("the run stopped after " + std::to_string(ran.after.size()) + " actions");
    same_on_all_ranks(ran);
    return ran;
}

/// Section 4: w, m and S_t have the same bits on every rank. This is compared after every action of
/// every run, for any property.
void Trial::same_on_all_ranks(const RunRecording& ran) {
    for (std::size_t i = 0; i < ran.after.size(); ++i) {
        const ActionRecording& snapshot = ran.after[i];
        const auto step = static_cast<Index>(i) + 1;
        // A halted step may be half done.
        if (snapshot.outcomes.empty() || snapshot.outcomes.front().kind == Outcome::Kind::halted)
            continue;
        const bool has_mask = snapshot.outcomes.front().kind == Outcome::Kind::taken &&
                              runs_.back().scenario.actions[i].kind == Action::Kind::step;
        const ObservedState& first = snapshot.views.front();
        for (std::size_t rank = 1; rank < snapshot.views.size(); ++rank) {
            const ObservedState& other = snapshot.views[rank];
            const auto who = static_cast<int>(rank);
            const auto expect_same = [&](Phase phase, const std::string& result, const auto& one,
                                         const auto& two) {
                if (one == two &&
                    (one.empty() || std::memcmp(one.data(), two.data(), one.size() * sizeof(one[0])) == 0))
                    return;
                if constexpr (sizeof(one[0]) == 1)
                    same_mask("replica of the " + result, step, who, one, two);
                else
                    same_bits(phase, "replica of the " + result, step, who, one, two);
            };
            if (has_mask)
                expect_same(Phase::mask, "mask", first.mask, other.mask);
            expect_same(Phase::exchange, "first_moment", first.moment, other.moment);
            expect_same(Phase::update, "parameters", first.parameters, other.parameters);
        }
    }
}

const RunRecording& Trial::operator()(Scenario scenario) {
    const RunRecording& ran = tolerant(std::move(scenario));
    for (std::size_t i = 0; i < ran.after.size(); ++i)
        for (std::size_t rank = 0; rank < ran.after[i].outcomes.size(); ++rank)
            if (const Outcome& outcome = ran.after[i].outcomes[rank]; outcome.kind != Outcome::Kind::taken)
                throw Violation("rank " + std::to_string(rank) + " did not take step " +
                                std::to_string(i + 1) + ": " + outcome.text);
    return ran;
}

void Trial::expect(bool holds, const std::string& otherwise) const {
    if (!holds)
        throw Violation(otherwise);
}

void Trial::expect_at(bool holds, Index step, Index coordinate, const std::string& otherwise,
                      int rank) const {
    if (holds)
        return;
    Divergence divergence;
    divergence.step = step;
    divergence.index = coordinate;
    divergence.rank = rank;
    throw Violation("step " + std::to_string(step) + (rank >= 0 ? ", rank " + std::to_string(rank) : "") +
                        ", coordinate " + std::to_string(coordinate) + ": " + otherwise,
                    std::move(divergence), action_);
}

void Trial::compared(const Comparison& comparison, Phase phase, const std::string& result, Index step,
                     int rank) {
    judged_.counts.compared += comparison.compared;
    judged_.counts.wrong += comparison.mismatched;
    judged_.counts.greatest_ulps = std::max(judged_.counts.greatest_ulps, comparison.greatest_ulps);
    if (comparison.ok())
        return;
    Divergence divergence{step, std::string(name(phase)), result, rank, std::nullopt, comparison, {}};
    if (!comparison.first.empty())
        divergence.index = comparison.first.front().index;
    throw Violation("step " + std::to_string(step) + ", " + result + " of rank " + std::to_string(rank) +
                        ": " + verify::summary(comparison),
                    std::move(divergence), action_);
}

void Trial::same_bits(Phase phase, const std::string& result, Index step, int rank,
                      const std::vector<float>& expected, const std::vector<float>& actual) {
    compared(verify::compare(expected, actual, verify::Level::exact()), phase, result, step, rank);
}

void Trial::same_mask(const std::string& result, Index step, int rank,
                      const std::vector<std::uint8_t>& expected, const std::vector<std::uint8_t>& actual) {
    if (result == "next_mask" && !implementation_.shows().next_mask)
        return;
    compared(verify::compare_masks(expected, actual, run_.size()), Phase::mask, result, step, rank);
}

void Trial::same_view(Index step, int rank, const ObservedState& expected, const ObservedState& actual,
                      bool with_mask) {
    expect(expected.step == actual.step, "rank " + std::to_string(rank) + " has taken " +
                                             std::to_string(actual.step) + " steps where it should be " +
                                             std::to_string(expected.step));
    const VisibleState shown = implementation_.shows();
    if (with_mask && shown.mask)
        same_mask("mask", step, rank, expected.mask, actual.mask);
    if (shown.residual)
        same_bits(Phase::residual, "residual", step, rank, expected.residual, actual.residual);
    if (shown.moment)
        same_bits(run_.clip_norm > 0.0 ? Phase::clip : Phase::exchange, "first_moment", step, rank,
                  expected.moment, actual.moment);
    same_bits(Phase::update, "parameters", step, rank, expected.parameters, actual.parameters);
}

} // namespace truestep::properties::scape

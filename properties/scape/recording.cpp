// Writes a recorded SCAPE run as a trace, up to its first restart or damage.
#include <truestep/properties/scape/recording.hpp>

#include <algorithm>
#include <utility>

#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "vectors.hpp"

namespace truestep::properties::scape {

namespace {

/// The actions that are steps which all ranks completed, up to the first restart or damage. After a halt or
/// a restore ranks show no mask, so the last step before it, whose coming mask is not available, is left
/// out, too.
std::vector<std::size_t> steps_of(const RecordedRun& ran) {
    std::vector<std::size_t> steps;
    const auto ranks = static_cast<std::size_t>(ran.scenario.setup.problem.workers);
    for (std::size_t action = 0; action < ran.history.after.size(); ++action) {
        if (ran.scenario.actions[action].kind == Action::Kind::restart ||
            ran.history.after[action].views.size() != ranks)
            break;
        const bool damage = ran.scenario.actions[action].kind == Action::Kind::damage;
        if (damage || ran.history.after[action].outcomes.front().kind == Outcome::Kind::halted) {
            if (!steps.empty())
                steps.pop_back();
            break;
        }
        if (ran.scenario.actions[action].kind == Action::Kind::step)
            steps.push_back(action);
    }
    return steps;
}

bool taken(const RecordedRun& ran, std::size_t action) {
    return ran.history.after[action].outcomes.front().kind == Outcome::Kind::taken;
}

/// The masks that steps made, by step and rank. The next taken step shows it, or the end as the coming one;
/// a rank that shows none has no bits.
std::vector<std::vector<std::vector<std::uint8_t>>> next_masks(const RecordedRun& ran,
                                                               const std::vector<std::size_t>& steps) {
    const auto ranks = static_cast<std::size_t>(ran.scenario.setup.problem.workers);
    const auto seen_in = [](const std::vector<ObservedState>& views) {
        std::vector<std::vector<std::uint8_t>> masks;
        masks.reserve(views.size());
        for (const ObservedState& view : views)
            masks.push_back(view.mask);
        return masks;
    };
    std::vector<std::vector<std::uint8_t>> coming;
    // A delay or an undone step after the last step keeps the coming mask. A restart does, too, but then
    // the history's mask is of other ranks.
    const bool to_the_end = ran.history.after.size() == ran.scenario.actions.size() &&
                            std::ranges::none_of(ran.scenario.actions, [](const Action& action) {
                                return action.kind == Action::Kind::restart;
                            });
    std::size_t unsupported = 0;
    while (unsupported < ran.history.after.size() &&
           ran.scenario.actions[unsupported].kind != Action::Kind::damage &&
           ran.history.after[unsupported].outcomes.front().kind != Outcome::Kind::halted)
        ++unsupported;
    if (unsupported < ran.history.after.size()) {
        // The step before the halt, which was left out, has used it.
        std::size_t action = unsupported;
        while (ran.scenario.actions[--action].kind != Action::Kind::step || !taken(ran, action)) {
        }
        coming = seen_in(ran.history.after[action].views);
    } else if (to_the_end)
        coming = ran.history.coming;
    else if (steps.back() + 1 < ran.history.after.size())
        coming = seen_in(ran.history.after[steps.back() + 1].views);
    // After a restart the number of ranks may differ, so their masks are not those of ours.
    if (coming.size() != ranks)
        coming.assign(ranks, coming.empty() ? std::vector<std::uint8_t>{} : coming.front());
    for (auto& mask : coming)
        if (mask.empty())
            mask.assign(static_cast<std::size_t>((ran.scenario.setup.problem.layout.size() + 7) / 8), 0);
    std::vector<std::vector<std::vector<std::uint8_t>>> next(steps.size());
    for (std::size_t step = steps.size(); step-- > 0;) {
        next[step] = coming;
        if (taken(ran, steps[step]))
            coming = seen_in(ran.history.after[steps[step]].views);
    }
    return next;
}

} // namespace

bool save_trace(const std::filesystem::path& path, const RecordedRun& ran, const std::string& source) {
    const auto steps = steps_of(ran);
    // A trace begins at the start of a run.
    if (steps.empty() || ran.scenario.setup.parameters.empty() || ran.scenario.setup.begun)
        return false;
    const ObservedState& seen = ran.history.after[steps.front()].views.front();
    if (seen.moment.empty() || seen.residual.empty() || seen.mask.empty())
        return false; // not everything is shown
    const problem::Problem& problem = ran.scenario.setup.problem;
    verify::scape::TraceHead head{source, problem, {}, {}, ran.scenario.setup.parameters};
    for (const std::size_t action : steps)
        head.learning_rate.push_back(ran.scenario.actions[action].learning_rate);
    for (Index t = 1; t <= static_cast<Index>(steps.size()) + 1; ++t)
        head.density.push_back(
            problem.algorithm == problem::Algorithm::adams ? 1.0 : ran.scenario.setup.density.at(t));

    const auto next = next_masks(ran, steps);
    verify::scape::TraceWriter writer(path, head, false, trace::Replicas::copies);
    for (std::size_t step = 0; step < steps.size(); ++step) {
        const ActionRecording& snapshot = ran.history.after[steps[step]];
        reference::PerRank<float> gradients;
        for (const auto& gradient : ran.scenario.actions[steps[step]].gradients)
            gradients.push_back(to_vector(gradient));
        std::vector<verify::scape::Replica> own;
        for (std::size_t rank = 0; rank < snapshot.views.size(); ++rank) {
            const ObservedState& view = snapshot.views[rank];
            own.push_back({taken(ran, steps[step]) ? view.mask : next[step][rank], next[step][rank],
                           to_vector(view.moment), to_vector(view.parameters)});
        }
        verify::scape::StepResults<float> results;
        if (problem.algorithm == problem::Algorithm::scape)
            for (const ObservedState& view : snapshot.views)
                results.residual.push_back(to_vector(view.residual));
        writer.write_step(gradients, results, own);
    }
    writer.finish();
    return true;
}

} // namespace truestep::properties::scape

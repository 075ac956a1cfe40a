#include <scape/properties/recording.hpp>

#include <utility>

#include <scape/verify/results.hpp>
#include <scape/verify/trace.hpp>

namespace scape::properties {

namespace {

using reference::Vector;

Vector<float> to_vector(const std::vector<float>& values) {
    return Eigen::Map<const Vector<float>>(values.data(), static_cast<Index>(values.size()));
}

/// The actions that are steps, up to the first restart, that all ranks came through.
std::vector<std::size_t> steps_of(const Ran& ran) {
    std::vector<std::size_t> steps;
    const auto ranks = static_cast<std::size_t>(ran.scenario.setup.problem.workers);
    for (std::size_t action = 0; action < ran.history.after.size(); ++action) {
        if (ran.scenario.actions[action].kind == Action::Kind::restart ||
            ran.history.after[action].views.size() != ranks ||
            ran.history.after[action].outcomes.front().kind == Outcome::Kind::halted)
            break;
        if (ran.scenario.actions[action].kind == Action::Kind::step)
            steps.push_back(action);
    }
    return steps;
}

bool taken(const Ran& ran, std::size_t action) {
    return ran.history.after[action].outcomes.front().kind == Outcome::Kind::taken;
}

} // namespace

bool save_trace(const std::filesystem::path& path, const Ran& ran, const std::string& source) {
    const auto steps = steps_of(ran);
    if (steps.empty() || ran.scenario.setup.parameters.empty())
        return false;
    const problem::Problem& problem = ran.scenario.setup.problem;
    const Index d = problem.layout.size();
    verify::TraceHead head{source, problem, {}, {}, ran.scenario.setup.parameters};
    for (const std::size_t action : steps)
        head.learning_rate.push_back(ran.scenario.actions[action].learning_rate);
    for (Index t = 1; t <= static_cast<Index>(steps.size()) + 1; ++t)
        head.density.push_back(
            problem.algorithm == problem::Algorithm::adams ? 1.0 : ran.scenario.setup.density.at(t));

    // The mask that a step made is seen in the next that is taken, and at the end as the coming one.
    std::vector<std::uint8_t> coming;
    if (steps.size() == ran.scenario.actions.size() && !ran.history.coming.empty())
        coming = ran.history.coming.front();
    else if (steps.back() + 1 < ran.history.after.size())
        coming = ran.history.after[steps.back() + 1].views.front().mask;
    if (coming.empty())
        coming.assign(static_cast<std::size_t>((d + 7) / 8), 0);
    std::vector<std::vector<std::uint8_t>> next(steps.size());
    for (std::size_t step = steps.size(); step-- > 0;) {
        next[step] = coming;
        if (taken(ran, steps[step]))
            coming = ran.history.after[steps[step]].views.front().mask;
    }

    verify::TraceWriter writer(path, head, false);
    for (std::size_t step = 0; step < steps.size(); ++step) {
        const Snapshot& snapshot = ran.history.after[steps[step]];
        reference::PerRank<float> gradients;
        for (const auto& gradient : ran.scenario.actions[steps[step]].gradients)
            gradients.push_back(to_vector(gradient));
        verify::StepResults<float> results;
        results.next_mask = verify::to_coordinates(next[step], d);
        results.mask = taken(ran, steps[step]) ? verify::to_coordinates(snapshot.views.front().mask, d)
                                               : results.next_mask;
        if (problem.algorithm == problem::Algorithm::scape)
            for (const View& view : snapshot.views)
                results.residual.push_back(to_vector(view.residual));
        results.first_moment = to_vector(snapshot.views.front().moment);
        results.parameters = to_vector(snapshot.views.front().parameters);
        writer.write_step(gradients, results);
    }
    writer.finish();
    return true;
}

} // namespace scape::properties

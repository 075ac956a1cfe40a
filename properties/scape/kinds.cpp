// Says which kinds a case of SCAPE belongs to.
#include <truestep/properties/scape/kinds.hpp>

#include <functional>

namespace truestep::properties::scape {

namespace {

template <class Is>
bool any_step(const Case& run, const Is& is) {
    for (Index t = 1; t <= run.steps; ++t)
        if (is(t))
            return true;
    return false;
}

} // namespace

bool leaves_something_out(const Case& run) {
    const problem::Problem problem = problem_of(run);
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) {
        return std::ranges::any_of(problem.segments, [&](const problem::Segment& segment) {
            return selected_count(segment, density.at(t), problem.settings.k_rounding) < segment.size();
        });
    });
}

bool density_rises(const Case& run) {
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) { return t > 1 && density.at(t) > density.at(t - 1); });
}

bool density_falls(const Case& run) {
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) { return density.at(t + 1) < density.at(t); });
}

bool groups_differ(const Case& run) {
    const problem::Groups groups = groups_of(run);
    return problem::has_levels(groups) &&
           std::ranges::adjacent_find(groups, std::not_equal_to()) != groups.end();
}

bool buckets_change(const Case& run) {
    for (Index t = 2; t <= run.steps + static_cast<Index>(run.script.size()); ++t)
        if (cut_of(run, t) != cut_of(run, 1))
            return true;
    return false;
}

bool has_a_tensor_larger_than_a_bucket(const Case& run) {
    return run.bucket_bytes > 0 && std::ranges::any_of(run.tensors, [&](const auto& tensor) {
               return tensor.size * static_cast<Index>(sizeof(float)) > run.bucket_bytes;
           });
}

bool any_segment(const Case& run, bool (*is)(Index n, double share, Index k)) {
    const problem::Problem problem = problem_of(run);
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) {
        return std::ranges::any_of(problem.segments, [&](const problem::Segment& segment) {
            const double rho = density.at(t);
            return !segment.always_dense && segment.size() > 0 &&
                   is(segment.size(), rho * static_cast<double>(segment.size()),
                      selected_count(segment, rho, problem.settings.k_rounding));
        });
    });
}

Index restarts(const Case& run) {
    return std::ranges::count(run.script, Operation::Kind::restart, &Operation::kind);
}

Checkpoints checkpoints(const Case& run) {
    Checkpoints found;
    bool moved = true;
    for (const Operation& operation : run.script) {
        moved = moved || operation.kind == Operation::Kind::step;
        if (operation.kind != Operation::Kind::restart && operation.kind != Operation::Kind::undo)
            continue;
        found.again += moved ? 0 : 1;
        moved = false;
        ++found.all;
    }
    return found;
}

} // namespace truestep::properties::scape

// Averages loss curves, and finds the steps and bytes that a curve needs to reach a loss.
#include <truestep/training/curve.hpp>

#include <algorithm>
#include <cmath>

#include <truestep/problem/error.hpp>
#include <truestep/problem/statistics.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::training {

namespace {

using Points = std::vector<Curve::Point>;

std::string told(const Curve& curve) {
    return "seed " + std::to_string(curve.seed) + " of '" + one_line(curve.optimizer) + "'";
}

void check_same_steps(std::span<const Curve> curves) {
    if (curves.empty())
        throw Error("there is no run; give at least one seed");
    for (const Curve& curve : curves) {
        (void)end_of(curve);
        if (!std::ranges::equal(curve.points, curves.front().points, {}, &Curve::Point::step,
                                &Curve::Point::step))
            throw Error(told(curve) + " was measured after other steps than " + told(curves.front()) +
                        "; measure both after the same ones");
    }
}

/// Applies `middle` at each step to the losses, and to the bytes.
template <class Middle>
Points joined(std::span<const Curve> curves, Middle middle) {
    check_same_steps(curves);
    Points all = curves.front().points;
    for (std::size_t at = 0; at < all.size(); ++at) {
        std::vector<double> losses;
        std::vector<double> bytes;
        for (const Curve& curve : curves) {
            losses.push_back(curve.points[at].loss);
            bytes.push_back(static_cast<double>(curve.points[at].bytes));
        }
        all[at].loss = middle(losses);
        all[at].bytes = static_cast<std::uint64_t>(middle(bytes));
    }
    return all;
}

double mean(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

/// `of` the curve, interpolated, where the loss first falls to this value.
template <class Of>
std::optional<double> first_at(std::span<const Curve::Point> points, double loss, Of of) {
    for (std::size_t at = 0; at < points.size(); ++at) {
        if (!(points[at].loss <= loss))
            continue;
        if (at == 0 || !std::isfinite(points[at - 1].loss))
            return of(points[at]);
        const Curve::Point& above = points[at - 1];
        const double part = (above.loss - loss) / (above.loss - points[at].loss);
        return of(above) + (part * (of(points[at]) - of(above)));
    }
    return {};
}

} // namespace

const Curve::Point& end_of(const Curve& curve) {
    if (curve.points.empty())
        throw Error(told(curve) + " has no points; measure it at least at its end");
    return curve.points.back();
}

Points mean_of(std::span<const Curve> curves) {
    return joined(curves, mean);
}

Points median_of(std::span<const Curve> curves) {
    return joined(curves, median);
}

std::optional<double> steps_to(std::span<const Curve::Point> points, double loss) {
    return first_at(points, loss,
                    [](const Curve::Point& point) { return static_cast<double>(point.step); });
}

std::optional<double> bytes_to(std::span<const Curve::Point> points, double loss) {
    return first_at(points, loss,
                    [](const Curve::Point& point) { return static_cast<double>(point.bytes); });
}

std::optional<double> steps_ratio(std::span<const Curve::Point> base,
                                  std::span<const Curve::Point> candidate) {
    if (base.empty() || candidate.empty())
        return {};
    const double both = std::max(base.back().loss, candidate.back().loss);
    const std::optional<double> of_base = steps_to(base, both);
    const std::optional<double> of_candidate = steps_to(candidate, both);
    if (!of_base || !of_candidate || *of_base <= 0.0)
        return {};
    return *of_candidate / *of_base;
}

std::vector<std::vector<Curve>> by_optimizer(std::span<const Curve> curves) {
    std::vector<std::vector<Curve>> groups;
    for (const Curve& curve : curves) {
        const auto group = std::ranges::find_if(
            groups, [&](const auto& one) { return one.front().optimizer == curve.optimizer; });
        if (group == groups.end())
            groups.push_back({curve});
        else
            group->push_back(curve);
    }
    return groups;
}

} // namespace truestep::training

// Evaluates density schedules: constant, linear, geometric or recorded.
#include <truestep/problem/density.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

namespace {

double checked(double density, const std::string& what) {
    if (!(density > 0.0 && density <= 1.0))
        throw Error("density: " + what + " is " + shortest(density) +
                    "; a density is more than 0 and at most 1");
    return density;
}

} // namespace

DensitySchedule::DensitySchedule(DensityKind kind, double start, double target, Index warm_up)
    : kind_(kind), start_(checked(start, "the start")), target_(checked(target, "the target")),
      warm_up_(warm_up) {
    if (warm_up < 0)
        throw Error("density: the warm-up is " + std::to_string(warm_up) + " steps; it must be at least 0");
}

DensitySchedule DensitySchedule::geometric(double start, double target, Index warm_up) {
    return {DensityKind::geometric, start, target, warm_up};
}

DensitySchedule DensitySchedule::linear(double start, double target, Index warm_up) {
    return {DensityKind::linear, start, target, warm_up};
}

DensitySchedule DensitySchedule::constant(double density) {
    return {DensityKind::constant, density, density, 0};
}

DensitySchedule DensitySchedule::recorded(std::vector<double> values, Index before) {
    DensitySchedule result(DensityKind::recorded, 1.0, 1.0, before);
    for (std::size_t entry = 0; entry < values.size(); ++entry)
        checked(values[entry], "entry " + std::to_string(entry));
    result.values_ = std::move(values);
    return result;
}

double DensitySchedule::at(Index t) const {
    if (t < 1)
        throw Error("density: step " + std::to_string(t) + "; steps begin at 1");
    if (kind_ == DensityKind::recorded) {
        if (t <= warm_up_ || t - warm_up_ > static_cast<Index>(values_.size()))
            throw Error("density: step " + std::to_string(t) + " is past the last of " +
                        std::to_string(values_.size()) + " recorded entries" +
                        (warm_up_ == 0 ? "" : ", which begin after step " + std::to_string(warm_up_)));
        return values_[static_cast<std::size_t>(t - warm_up_ - 1)];
    }
    if (warm_up_ == 0)
        return target_;
    const double progress = static_cast<double>(std::min(t - 1, warm_up_)) / static_cast<double>(warm_up_);
    return kind_ == DensityKind::geometric ? start_ * std::pow(target_ / start_, progress)
                                           : start_ + (target_ - start_) * progress;
}

std::string DensitySchedule::text() const {
    std::string text = std::to_string(static_cast<int>(kind_)) + " " + shortest(start_) + " " +
                       shortest(target_) + " " + std::to_string(warm_up_);
    for (const double value : values_)
        text += " " + shortest(value);
    return text;
}

std::string DensitySchedule::description() const {
    if (kind_ == DensityKind::recorded)
        return "one of " + std::to_string(values_.size()) + " recorded entries, from " +
               shortest(values_.front()) + " to " + shortest(values_.back()) + ", " +
               shortest(std::accumulate(values_.begin(), values_.end(), 0.0)) + " in all";
    if (warm_up_ == 0)
        return shortest(target_);
    return std::string(kind_ == DensityKind::geometric ? "geometric" : "linear") + " from " +
           shortest(start_) + " to " + shortest(target_) + " in " + std::to_string(warm_up_) + " steps";
}

} // namespace truestep::problem

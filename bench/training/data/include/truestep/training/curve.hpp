#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace truestep::training {

/// One training run, as it is drawn and judged: the loss on the measured text, in nats a symbol, after some
/// of its steps.
struct Curve {
    struct Point {
        std::size_t step = 0;
        double loss = 0;
        std::uint64_t bytes = 0; ///< sent by all ranks so far
    };
    std::string optimizer;    ///< as it was asked for: "scape density=0.01"
    std::uint64_t seed = 0;   ///< of the start and of the data; runs of one seed are a pair
    double learning_rate = 0; ///< at its peak
    std::vector<Point> points;
};

/// Where a run ended. Throws truestep::Error for one without points.
[[nodiscard]] const Curve::Point& end_of(const Curve& curve);

/// Runs of one optimizer, told as one. They must have been measured after the same steps.
[[nodiscard]] std::vector<Curve::Point> mean_of(std::span<const Curve> curves);
[[nodiscard]] std::vector<Curve::Point> median_of(std::span<const Curve> curves);

/// How many steps, or bytes, it takes to come down to a loss for the first time, by straight lines between
/// the points; nothing where it never does.
[[nodiscard]] std::optional<double> steps_to(std::span<const Curve::Point> points, double loss);
[[nodiscard]] std::optional<double> bytes_to(std::span<const Curve::Point> points, double loss);

/// "needs 1.3 times the steps": what a candidate takes to the lowest loss that both come to, over what the
/// base line takes. Nothing where the base line is there from the start, or no loss is a number.
[[nodiscard]] std::optional<double> steps_ratio(std::span<const Curve::Point> base,
                                                std::span<const Curve::Point> candidate);

/// In groups, in the order in which the optimizers come first.
[[nodiscard]] std::vector<std::vector<Curve>> by_optimizer(std::span<const Curve> curves);

} // namespace truestep::training

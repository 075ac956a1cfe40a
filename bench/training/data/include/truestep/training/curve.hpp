#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace truestep::training {

/// One training run: the loss on the measured text, in nats a symbol, after some of its steps.
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

/// The end of a run. Throws truestep::Error for a curve without points.
[[nodiscard]] const Curve::Point& end_of(const Curve& curve);

/// Combine runs of one optimizer, which must have been measured after the same steps.
[[nodiscard]] std::vector<Curve::Point> mean_of(std::span<const Curve> curves);
[[nodiscard]] std::vector<Curve::Point> median_of(std::span<const Curve> curves);

/// How many steps, or bytes, a run takes until it first reaches a loss, with straight lines between
/// the points; nothing if it never does.
[[nodiscard]] std::optional<double> steps_to(std::span<const Curve::Point> points, double loss);
[[nodiscard]] std::optional<double> bytes_to(std::span<const Curve::Point> points, double loss);

/// "needs 1.3 times the steps": the candidate's steps to the lowest loss that both reach, divided
/// by the base line's. Nothing if the base line starts there, or no loss is a number.
[[nodiscard]] std::optional<double> steps_ratio(std::span<const Curve::Point> base,
                                                std::span<const Curve::Point> candidate);

/// Groups of runs, in the order in which the optimizers first appear.
[[nodiscard]] std::vector<std::vector<Curve>> by_optimizer(std::span<const Curve> curves);

} // namespace truestep::training

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/gate/learning.hpp>
#include <truestep/training/convergence.hpp>

#include "windows.hpp"

namespace truestep::training {

/// After which steps a run is measured, the last one among them.
[[nodiscard]] inline bool is_measured(const Plan& plan, std::size_t step) {
    return step % plan.measure_every == 0 || step == plan.steps;
}

/// A training as the gate's implementations take it: gradients of the model at what their ranks have
/// become.
class Learner final : public gate::Live {
  public:
    Learner(const ConvergeSettings& settings, const Text& text, std::uint64_t seed, bool turned);

    [[nodiscard]] Step next(int rank, std::span<const float> parameters) override;
    void seen(int rank, std::span<const float> values) override;
    void seen(int rank, std::span<const std::uint8_t> bytes) override;
    /// After the run, or what there is of it.
    [[nodiscard]] Curve curve(const std::string& name) const;
    /// Of every bit that the ranks have shown, after each step.
    [[nodiscard]] std::uint64_t digest() const;

  private:
    struct OfRank {
        Windows windows;
        Model<float> model;
        std::size_t step = 0;       ///< taken
        std::vector<double> losses; ///< of its share of the measured windows, a sum each
        std::uint64_t digest = 0;   ///< of what it has shown
    };

    void measure(int rank, OfRank& mine, std::span<const float> parameters) const;

    const ConvergeSettings& settings_;
    std::uint64_t seed_;
    bool turned_;
    std::vector<OfRank> ranks_;
};

} // namespace truestep::training

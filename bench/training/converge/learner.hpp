#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/gate/learning.hpp>
#include <truestep/training/convergence.hpp>

#include "windows.hpp"

namespace truestep::training {

/// Whether a run is measured after this step; it always is after the last.
[[nodiscard]] inline bool is_measured(const Plan& plan, std::size_t step) {
    return step % plan.measure_every == 0 || step == plan.steps;
}

/// A training in the form that the gate's implementations take: gradients of the model at the
/// ranks' current parameters.
class Learner final : public gate::GradientSource {
  public:
    Learner(const ConvergeSettings& settings, const Text& text, std::uint64_t seed, bool turned);

    [[nodiscard]] Step next(int rank, std::span<const float> parameters) override;
    void seen(int rank, std::span<const float> values) override;
    void seen(int rank, std::span<const std::uint8_t> bytes) override;
    /// The curve after the run, or as far as it came.
    [[nodiscard]] Curve curve(const std::string& name) const;
    /// A digest of all states of all ranks, after each step.
    [[nodiscard]] std::uint64_t digest() const;

  private:
    struct OfRank {
        Windows windows;
        Model<float> model;
        std::size_t step = 0;       ///< taken
        std::vector<double> losses; ///< of its share of the measured windows, a sum each
        std::uint64_t digest = 0;   ///< of its states
    };

    void measure(int rank, OfRank& mine, std::span<const float> parameters) const;

    const ConvergeSettings& settings_;
    std::uint64_t seed_;
    bool turned_;
    std::vector<OfRank> ranks_;
};

} // namespace truestep::training

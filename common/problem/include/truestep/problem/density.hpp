#pragma once

#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem {

enum class DensityKind { geometric, linear, constant, recorded };

/// delta(t): the share of each segment that the mask used at step t selects (section 4). It is
/// computed in double and stored in every trace, so that repeating a run does not need the same
/// `pow`.
class DensitySchedule {
  public:
    /// From `start` at t = 1 to `target` at t = warm_up + 1: start*(target/start)^(min(t-1,W)/W).
    static DensitySchedule geometric(double start, double target, Index warm_up);
    static DensitySchedule linear(double start, double target, Index warm_up);
    static DensitySchedule constant(double density);
    /// Entry t-1 belongs to the mask used at step t, or at step t + `before`. There are no entries
    /// past the last.
    static DensitySchedule recorded(std::vector<double> values, Index before = 0);

    [[nodiscard]] double at(Index t) const;

    /// The whole schedule in one line, equal only for equal schedules.
    [[nodiscard]] std::string text() const;
    /// The schedule for a person: "0.1", "geometric from 1 to 0.01 in 100 steps".
    [[nodiscard]] std::string description() const;

  private:
    DensitySchedule(DensityKind kind, double start, double target, Index warm_up);

    DensityKind kind_;
    double start_;
    double target_;
    Index warm_up_; ///< for a recorded schedule: the steps before its first entry
    std::vector<double> values_;
};

} // namespace truestep::problem

// The judging of one case of MAPL.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <truestep/gate/trial.hpp>
#include <truestep/verify/mapl/judgement.hpp>

#include "implementation.hpp"

namespace truestep::properties::mapl {

[[nodiscard]] Matrix<double> matrix_of(const Floats& values, Index columns);
[[nodiscard]] Floats floats_of(const Matrix<float>& values);
[[nodiscard]] Matrix<verify::Bounded> bounded_of(const Floats& values, Index columns);
/// Whether sums of a few thousand products of three such numbers are exact in fp32; with steps of 64, of a
/// few dozen products with two others.
[[nodiscard]] bool few_bits(const Floats& values, float steps = 8.0F);

/// The content of one micro-batch's message: Z or dZ, and its size.
struct OnTheWire {
    Floats values;
    std::size_t bytes = 0;
};
[[nodiscard]] OnTheWire sent_values(const Scenario& scenario, const std::vector<RankRecording>& seen,
                                    Index boundary, Index step, Index micro, bool forward);

/// One case under judgement.
class Trial : public gate::TrialOf<Case> {
  public:
    Trial(const gate::Implementation& implementation, const Case& of);

    [[nodiscard]] std::vector<RankRecording> play(const Scenario& of) const { return candidate.run(of); }
    /// Judges each replica of the recorded pipeline as if it were the only one, with its own `seen` and
    /// ids.
    template <class Judge>
    void each_replica(const Judge& judge) {
        for (Index number = 0; number < run.replicas; ++number) {
            Trial one = of_replica(number);
            judge(one);
            judged = one.judged;
        }
    }
    [[nodiscard]] OnTheWire sent(const std::vector<RankRecording>& seen, Index boundary, Index step,
                                 Index micro, bool forward) const;

    void same(const Floats& expected, const Floats& actual, Index step, const std::string& what,
              const std::string& whose);
    /// Compares two whole runs: all that was shown and sent.
    void same(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
              const std::string& whose);
    /// Compares within twice the bound on rounding.
    void near(const Matrix<verify::Bounded>& expected, const Floats& actual, Index step,
              const std::string& what);
    void near(const Matrix<double>& expected, const Matrix<double>& actual, double limit, Index step,
              const std::string& what);
    void within(double off, double limit, Index step, const std::string& what);

    Scenario scenario;
    const Implementation& candidate;
    std::vector<RankRecording> seen; ///< the recording of the scenario, once it has run
    Index replica = 0;               ///< the replica that is judged

  protected:
    [[nodiscard]] gate::Finding::Size size(Index step) const override;
    [[nodiscard]] gate::FindingOnDemand on_demand(Index step) const override;

  private:
    [[nodiscard]] Trial of_replica(Index number) const;
    void add(const verify::Comparison& compared, Index step, const std::string& what,
             const std::string& whose);
};

/// The recorded sides of a boundary at the beginning of a step.
template <class T>
[[nodiscard]] Boundary<T> shown_boundary(const Trial& trial, Index boundary, Index step);

/// The ids of a micro-batch, for the reference.
[[nodiscard]] Ids ids_of(const Trial& trial, Index step, Index micro);

[[nodiscard]] std::string boundary_text(Index boundary, const std::string& what);
/// The same where there may be several replicas.
[[nodiscard]] std::string boundary_text(const Scenario& scenario, int sender, const std::string& what);

} // namespace truestep::properties::mapl

// The judging of one case of GASLoC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>
#include <truestep/verify/comparator.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// The right recordings, by the reference.
[[nodiscard]] std::vector<RankRecording> expected_lives(const Scenario& scenario);

/// One case under judgement.
class Trial {
  public:
    using Floats = std::vector<float>;

    Trial(const gate::Implementation& implementation, const Case& of);

    /// Runs a scenario on the implementation.
    [[nodiscard]] std::vector<RankRecording> play(const Scenario& of) const { return candidate.run(of); }

    /// Keeps the first finding and drops later ones.
    void violated(Index round, const std::string& message, const std::string& details = "");
    /// Compares bit for bit. Returns whether they are the same.
    bool same(const Floats& expected, const Floats& actual, Index round, int worker,
              const std::string& what, const std::string& whose);
    /// Compares a worker's whole state after a round.
    void same(const State& expected, const State& actual, Index round, int worker,
              const std::string& whose);
    /// Compares a whole run with another, and how they ended.
    void same(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
              const std::string& whose);
    /// Compares a run of the trial's scenario with the reference, at the level that the implementation
    /// claims: bit for bit, or each round within the bound on rounding, beginning with the worker's own
    /// state.
    void as_the_reference(const std::vector<RankRecording>& actual);
    [[nodiscard]] bool is_exact() const { return candidate.level() == verify::LevelKind::exact; }
    /// Whether every worker has completed every round.
    [[nodiscard]] bool whole(const std::vector<RankRecording>& lives);
    void add(const verify::Comparison& compared);

    Case run;
    Scenario scenario;
    const Implementation& candidate;
    std::vector<RankRecording> lives; ///< the recording of the scenario, once it has run
    gate::JudgementOf<Case> judged;

  private:
    void within_bounds(const std::vector<RankRecording>& expected,
                       const std::vector<RankRecording>& actual);
};

[[nodiscard]] std::string worker_text(int worker, Index round);

} // namespace truestep::properties::gasloc

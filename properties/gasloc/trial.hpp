// The judging of one case of GASLoC.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/trial.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// The right recordings, by the reference.
[[nodiscard]] std::vector<RankRecording> expected_lives(const Scenario& scenario);

/// One case under judgement.
class Trial : public gate::TrialOf<Case> {
  public:
    using Floats = std::vector<float>;

    Trial(const gate::Implementation& implementation, const Case& of);

    /// Runs a scenario on the implementation.
    [[nodiscard]] std::vector<RankRecording> play(const Scenario& of) const { return candidate.run(of); }

    /// Runs the trial's scenario. Ends the trial, with a finding, if a worker did not complete each round.
    void complete();

    using TrialOf::same;
    /// Compares bit for bit.
    void same(const Floats& expected, const Floats& actual, Index round, int worker,
              const std::string& what, const std::string& whose);
    /// Compares a worker's whole state after a round.
    void same(const State& expected, const State& actual, Index round, int worker,
              const std::string& whose);
    /// Compares the states after the rounds that both runs have.
    void same_states(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
                     const std::string& whose);
    /// Compares a whole run with another, and how they ended.
    void same(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
              const std::string& whose);
    /// Compares a run of the trial's scenario with the reference, at the level that the implementation
    /// claims: bit for bit, or each round within the bound on rounding, beginning with the worker's own
    /// state.
    void as_the_reference(const std::vector<RankRecording>& actual);
    /// The recorded state of a worker after a round that it has completed.
    [[nodiscard]] const State& state(int worker, Index round) const {
        return lives[static_cast<std::size_t>(worker)].rounds.at(round).state;
    }
    [[nodiscard]] bool is_exact() const { return candidate.level() == verify::LevelKind::exact; }
    void same_count(Index expected, Index actual, Index round, int worker, const std::string& of,
                    const std::string& whose);
    void same_skip(bool skips, const RoundRecording& seen, Index round, int worker);

    Scenario scenario;
    const Implementation& candidate;
    std::vector<RankRecording> lives; ///< the recording of the scenario, once it has run

  protected:
    [[nodiscard]] gate::Finding::Size size(Index round) const override;
    [[nodiscard]] gate::FindingOnDemand on_demand(Index round) const override;

  private:
    void did_not_end(Index round, std::size_t worker, const RankRecording& life);
    void within_bounds(const std::vector<RankRecording>& expected,
                       const std::vector<RankRecording>& actual);
};

[[nodiscard]] std::string worker_text(int worker, Index round);

/// Draws each worker's model before the round, its gradients, and its result beside the reference's.
[[nodiscard]] std::optional<gate::Drawing> drawing_of(const Scenario& scenario,
                                                      const std::vector<RankRecording>& lives, Index round);

} // namespace truestep::properties::gasloc

#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>
#include <truestep/verify/comparator.hpp>

#include "candidate.hpp"

namespace truestep::properties::gasloc {

/// The right answer, as a run would show it: by the reference.
[[nodiscard]] std::vector<Life> expected_lives(const Scenario& scenario);

/// One case as it is judged.
class Trial {
  public:
    using Floats = std::vector<float>;

    Trial(const gate::Implementation& implementation, const Case& of);

    /// What the implementation makes of a scenario.
    [[nodiscard]] std::vector<Life> play(const Scenario& of) const { return candidate.run(of); }

    /// The first finding is the one that is told.
    void violated(Index round, const std::string& message, const std::string& details = "");
    /// Bit for bit. True if they are the same.
    bool same(const Floats& expected, const Floats& actual, Index round, int worker,
              const std::string& what, const std::string& whose);
    /// All that a worker holds after a round.
    void same(const State& expected, const State& actual, Index round, int worker,
              const std::string& whose);
    /// A whole run beside another, up to how it ended.
    void same(const std::vector<Life>& expected, const std::vector<Life>& actual, const std::string& whose);
    /// A run of the trial's scenario as the reference has it: to the bit, or each round within the bound on
    /// rounding of what the worker itself began it with, by what the implementation claims.
    void as_the_reference(const std::vector<Life>& actual);
    [[nodiscard]] bool is_exact() const { return candidate.level() == verify::LevelKind::exact; }
    /// That every worker has ended every round.
    [[nodiscard]] bool whole(const std::vector<Life>& lives);
    void add(const verify::Comparison& compared);

    Case run;
    Scenario scenario;
    const Candidate& candidate;
    std::vector<Life> lives; ///< of the scenario, once it has been played
    gate::Judged judged;

  private:
    void within_bounds(const std::vector<Life>& expected, const std::vector<Life>& actual);
};

[[nodiscard]] std::string worker_text(int worker, Index round);

} // namespace truestep::properties::gasloc

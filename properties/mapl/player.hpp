// Runs the stages of a scenario.
#pragma once

#include "candidate.hpp"

namespace truestep::properties::mapl {

/// Runs one rank's part of a scenario: its stage, with the ends at its sides.
[[nodiscard]] Seen play_stage(const Scenario& scenario, const Subjects& subjects,
                              distributed::Peers& peers);

} // namespace truestep::properties::mapl

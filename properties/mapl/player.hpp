// Runs the stages of a scenario.
#pragma once

#include "implementation.hpp"

namespace truestep::properties::mapl {

/// Runs one rank's part of a scenario: its stage, with the ends at its sides.
[[nodiscard]] RankRecording play_stage(const Scenario& scenario, const EndFactory& subjects,
                                       distributed::Peers& peers);

} // namespace truestep::properties::mapl

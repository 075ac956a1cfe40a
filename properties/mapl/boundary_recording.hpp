// Recorded runs of MAPL as traces.
#pragma once

#include <truestep/verify/mapl/traces.hpp>

#include "implementation.hpp"

namespace truestep::properties::mapl {

/// The recording of one boundary as a trace holds it. With codewords it holds what was sent instead of Z.
/// Throws truestep::Error if that is no valid message.
[[nodiscard]] verify::mapl::Recording recording_of(const Scenario& scenario,
                                                   const std::vector<RankRecording>& seen, Index boundary);

} // namespace truestep::properties::mapl

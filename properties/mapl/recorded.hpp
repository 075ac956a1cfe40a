#pragma once

#include <truestep/verify/mapl/traces.hpp>

#include "candidate.hpp"

namespace truestep::properties::mapl {

/// What was seen at one boundary, as a trace holds it. Of codewords Z is not seen, but what travelled.
/// Throws truestep::Error where that is no message.
[[nodiscard]] verify::mapl::Recording recording_of(const Scenario& scenario, const std::vector<Seen>& seen,
                                                   Index boundary);

} // namespace truestep::properties::mapl

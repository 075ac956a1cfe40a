#pragma once

#include <scape/mapl/traces.hpp>

#include "candidate.hpp"

namespace scape::mapl {

/// What was seen at one boundary, as a trace holds it. Not of Z as codewords, which traces do not know.
[[nodiscard]] Recording recording_of(const Scenario& scenario, const std::vector<Seen>& seen,
                                     Index boundary);

} // namespace scape::mapl

// Resumes a run from its recorded state, and compares the two.
#pragma once

#include "trial.hpp"

namespace truestep::properties::mapl {

/// The rest of a run as its own scenario, from the recorded state before that step, which becomes step 0.
/// The run has no codewords. A trainer begins anew, so nothing that it trains may matter to boundaries.
[[nodiscard]] Scenario resumed_before(const Trial& trial, Index step);

/// Compares, bit for bit, a run from a step on with one that resumes there.
void goes_on_from(Trial& trial, Index step);

} // namespace truestep::properties::mapl

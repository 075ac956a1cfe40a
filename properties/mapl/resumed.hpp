#pragma once

#include "trial.hpp"

namespace truestep::properties::mapl {

/// What a run has still to do before that step, from the state that was shown then, as a scenario of its
/// own: its step 0 is that step. Of runs without codewords and trainers.
[[nodiscard]] Scenario resumed_before(const Trial& trial, Index step);

} // namespace truestep::properties::mapl

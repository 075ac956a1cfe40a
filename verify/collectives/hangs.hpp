/// Which ranks wait in a collective that does not end, and which ones are missing there.
#pragma once

#include <string>
#include <vector>

#include "join.hpp"

namespace truestep::verify::collectives {

/// A finding for each call in which a rank has reported that it hangs.
[[nodiscard]] std::vector<Finding> find_hangs(const std::vector<JoinedGroup>& run);

/// What a rank that was killed was in, as far as its file shows: "it was in call 3, ..., which rank 1 has
/// not called"; else empty.
[[nodiscard]] std::string last_wait_text(const std::vector<JoinedGroup>& run, const Recording& recording);

} // namespace truestep::verify::collectives

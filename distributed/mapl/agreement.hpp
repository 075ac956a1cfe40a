#pragma once

#include <scape/mapl/ends.hpp>

namespace scape::mapl {

/// Throws scape::Error, the same line on both sides, if they were not told the same.
void agree(distributed::Peers& peers, int peer, Side side, const Settings& settings, const EndState& state);

} // namespace scape::mapl

#pragma once

#include "warp.hpp"

namespace truestep::simulator {

/// Runs a warp for this many instructions, or until all its lanes are blocked.
void take_turn(Warp& warp, std::uint64_t instructions);

} // namespace truestep::simulator

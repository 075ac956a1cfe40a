#pragma once

#include "warp.hpp"

namespace truestep::simulator {

/// Lets a warp run for so many instructions, or until none of its lanes can.
void take_turn(Warp& warp, std::uint64_t instructions);

} // namespace truestep::simulator

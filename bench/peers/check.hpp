#pragma once

#include <string_view>

#include "peers/peer.hpp"

namespace truestep::peers {

/// Takes a few rounds with the peer and with a sequential reference of the same rules, which sees all
/// ranks' gradients, and compares after each step (gasloc: after each round): how many parameters of this
/// rank have other bits, over all of them. A round is a step, or H of the local ones. All ranks call it. A
/// timing without this is the timing of something else.
[[nodiscard]] Index wrong_parameters(std::string_view name, const Setting& setting, const Links& links,
                                     int rounds);

} // namespace truestep::peers

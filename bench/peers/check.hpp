#pragma once

#include <string_view>

#include "peers/peer.hpp"

namespace truestep::peers {

/// Takes a few rounds with the peer and with a sequential reference of the same rules, which has
/// all ranks' gradients. Compares them after each step (gasloc: after each round) and returns how
/// many parameters of this rank have other bits, over all comparisons. A round is a step, or H
/// steps for local peers. All ranks call it. Without this check a timing could be that of another
/// computation.
[[nodiscard]] Index wrong_parameters(std::string_view name, const Setting& setting, const Links& links,
                                     int rounds);

} // namespace truestep::peers

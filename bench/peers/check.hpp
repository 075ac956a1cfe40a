#pragma once

#include <string_view>

#include "peers/peer.hpp"

namespace scape::peers {

/// Takes a few steps with the peer and with a sequential reference of the same rules, which sees all ranks'
/// gradients, and compares after each: how many parameters of this rank have other bits, over all steps.
/// All ranks call it. A timing without this is the timing of something else.
[[nodiscard]] Index wrong_parameters(std::string_view name, const Setting& setting,
                                     Communicator& communicator, int steps);

} // namespace scape::peers

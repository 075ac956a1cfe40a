#pragma once

#include <vector>

#include "explorer.hpp"

namespace truestep::distributed::model {

/// Scenarios of three ranks and a few workers: each kind of exchange, several at once, and each way
/// to fail. Includes those of peers.
[[nodiscard]] std::vector<Scenario> scenarios();

/// Three ranks that send each other messages.
[[nodiscard]] std::vector<Scenario> peer_scenarios();

/// The scenario of this name, with the known bug `planted` of model_copy.py switched on, if any.
[[nodiscard]] Scenario scenario(const std::string& name, int planted = 0);

} // namespace truestep::distributed::model

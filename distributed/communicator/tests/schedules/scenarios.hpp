#pragma once

#include <vector>

#include "explorer.hpp"

namespace truestep::distributed::model {

/// What three ranks and a few workers do: each kind of exchange, several at once, and each way to end
/// badly. With those of peers.
[[nodiscard]] std::vector<Scenario> scenarios();

/// Three ranks that send each other messages.
[[nodiscard]] std::vector<Scenario> peer_scenarios();

/// By name; with a mistake of model_copy.py switched on, if any.
[[nodiscard]] Scenario scenario(const std::string& name, int planted = 0);

} // namespace truestep::distributed::model

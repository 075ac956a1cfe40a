// The check that all GASLoC workers begin with the same settings, parameters and round.
#pragma once

#include <truestep/distributed/peers.hpp>
#include <truestep/problem/gasloc/settings.hpp>

namespace truestep::distributed::gasloc {

struct State;

/// Throws truestep::Error, the same on all ranks, unless all have the same settings, parameters and
/// round. A worker talks to all others only when it begins or is restored.
void agree_on_settings(distributed::Peers& peers, const problem::gasloc::Settings& settings,
                       const State& state);

} // namespace truestep::distributed::gasloc

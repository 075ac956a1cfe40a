#pragma once

#include <truestep/distributed/peers.hpp>
#include <truestep/gasloc/settings.hpp>

namespace truestep::gasloc {

struct State;

/// Throws truestep::Error, the same on all ranks, unless all have the same settings, parameters and round.
/// The only time that a worker talks to all others.
void agree_on_settings(distributed::Peers& peers, const Settings& settings, const State& state);

} // namespace truestep::gasloc

#pragma once

#include <scape/distributed/peers.hpp>
#include <scape/gasloc/settings.hpp>

namespace scape::gasloc {

struct State;

/// Throws scape::Error, the same on all ranks, unless all have the same settings, parameters and round. The
/// only time that a worker talks to all others.
void agree_on_settings(distributed::Peers& peers, const Settings& settings, const State& state);

} // namespace scape::gasloc

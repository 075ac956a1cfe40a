#pragma once

#include <truestep/distributed/mapl/ends.hpp>

namespace truestep::distributed::mapl {

/// Throws truestep::Error, the same line on both sides, if the two sides differ.
void agree(distributed::Peers& peers, int peer, Side side, const Settings& settings, const EndState& state);
/// The same among the replicas of a sender, in the order of the communicator: for the state that
/// they must share.
void agree_among(distributed::Communicator& replicas, const Settings& settings, const EndState& state);
/// The same for the rate of a step: with another, a replica's A would go its own way.
void agree_on_rate(distributed::Communicator& replicas, double rate);

} // namespace truestep::distributed::mapl

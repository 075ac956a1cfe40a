// A group of ranks in one thread.
#pragma once

#include <memory>

#include <truestep/gate/group.hpp>

namespace truestep::properties::scape::scope {

/// Ranks that take turns in one thread: each has its own stack and runs until it waits for another. To
/// start a thread per rank, or to wake one at each exchange, costs a hundred times as much as a problem of
/// three parameters. Only one thread at a time may run such a group.
[[nodiscard]] std::shared_ptr<const gate::Group> make_fiber_group();

} // namespace truestep::properties::scape::scope

#pragma once

#include <memory>

#include <truestep/gate/group.hpp>

namespace truestep::properties::scape::scope {

/// Ranks that take turns in one thread: each has a stack of its own and goes on until it waits for another.
/// To start a thread a rank, or to wake one at each exchange, costs a hundred times what a problem of three
/// parameters does. One thread at a time may run such
/// a group.
[[nodiscard]] std::shared_ptr<const gate::Group> make_fiber_group();

} // namespace truestep::properties::scape::scope

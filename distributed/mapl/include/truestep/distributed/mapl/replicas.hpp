#pragma once

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/mapl/passes.hpp>

namespace truestep::distributed::mapl {

/// (((x_0 + x_1) + x_2) + ...) / P, in place, over the ranks of the communicator in ascending
/// order: the same bits on all of them. Each rank adds a part for all (section 22.1).
void mean_over(distributed::Communicator& replicas, Floats& values);

} // namespace truestep::distributed::mapl

#pragma once

#include <scape/distributed/communicator.hpp>
#include <scape/mapl/passes.hpp>

namespace scape::mapl {

/// (((x_0 + x_1) + x_2) + ...) / P, in place, by the ranks of the communicator in ascending order: the same
/// bits on all of them. Each adds a part for all (section 22.1).
void mean_over(distributed::Communicator& replicas, Floats& values);

} // namespace scape::mapl

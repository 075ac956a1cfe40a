#pragma once

#include <memory>

#include <scape/distributed/communicator.hpp>
#include <scape/planted/bugs.hpp>
#include <scape/properties/implementation.hpp>

namespace scape::planted {

/// One rank of SCAPE as a colleague would write it down from the specification: element by element, on
/// vectors of full length, with nothing packed but what travels. With Bug::none it is EXACT. Throws
/// scape::Error where the setup asks for a rule that only old traces have (k_rounding, decay_order). The
/// communicator has to outlive it.
[[nodiscard]] std::unique_ptr<properties::Candidate>
make_plain(const properties::Setup& setup, distributed::Communicator& communicator, Bug bug);

} // namespace scape::planted

#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "candidate.hpp"

namespace truestep::properties::averaging {

/// What is told and drawn of a case in which a property does not hold: the state after `round`, from 0 on.
[[nodiscard]] std::shared_ptr<const gate::Finding>
difference(std::string message, std::string details, const Case& run, std::vector<Seen> seen, Index round);

} // namespace truestep::properties::averaging

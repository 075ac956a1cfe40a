// The report of a case of averaging in which a property does not hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "implementation.hpp"

namespace truestep::properties::averaging {

/// The finding, with its drawing: the state after `round`, which counts from 0.
[[nodiscard]] std::shared_ptr<const gate::Finding> difference(std::string message, std::string details,
                                                              const Case& run,
                                                              std::vector<RankRecording> seen, Index round);

} // namespace truestep::properties::averaging

// The report of a case of GASLoC in which a property does not hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// The finding, with its drawing: the state after `round`.
[[nodiscard]] std::shared_ptr<const gate::Finding> difference(std::string message, std::string details,
                                                              const Case& run, const Scenario& scenario,
                                                              std::vector<RankRecording> lives,
                                                              Index round);

} // namespace truestep::properties::gasloc

#pragma once

#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "trial.hpp"

// Declarations that the families of GASLoC's properties share.

namespace truestep::properties::gasloc {

[[nodiscard]] std::vector<gate::Property> gossip_properties();
[[nodiscard]] std::vector<gate::Property> diloco_properties();
[[nodiscard]] std::vector<gate::Property> neighbour_properties();
[[nodiscard]] std::vector<gate::Property> delay_properties();
[[nodiscard]] std::vector<gate::Property> interruption_properties();
[[nodiscard]] std::vector<gate::Property> setting_properties();
[[nodiscard]] std::vector<gate::Property> reference_properties();

using Judge = void (*)(Trial&);
using Change = Case (*)(Case);
using Demands = gate::Demands<Case>;

[[nodiscard]] Case as_it_is(Case run);
[[nodiscard]] Case exact_local(Case run);
[[nodiscard]] Case without_restart(Case run);

/// The kinds of cases that a property about neighbours demands.
[[nodiscard]] Demands meets();

/// Makes a property. Where an implementation claims only REL, `at_rel` changes the case, too: it makes it
/// exact for a property whose two sides add in different orders.
[[nodiscard]] gate::Property property(int number, const std::string& name, const std::string& says,
                                      Judge judge, const Demands& at_least = {}, Change change = as_it_is,
                                      Change at_rel = as_it_is);

} // namespace truestep::properties::gasloc

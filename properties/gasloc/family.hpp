#pragma once

#include <map>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "trial.hpp"

// What the families of properties share.

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
using AtLeast = std::map<std::string, int>;

[[nodiscard]] Case as_it_is(Case run);
[[nodiscard]] Case exact_local(Case run);
[[nodiscard]] Case without_restart(Case run);

/// The demand on cases of a property that speaks of neighbours.
[[nodiscard]] AtLeast meets();

/// `at_rel` is made of a case besides, where an implementation claims no more than REL: all of it exact,
/// for a property whose two sides are sums of different orders.
[[nodiscard]] gate::Property property(int number, const std::string& name, const std::string& says,
                                      Judge judge, const AtLeast& at_least = {}, Change change = as_it_is,
                                      Change at_rel = as_it_is);

/// What one vector has at a place, of each worker after a round.
[[nodiscard]] std::vector<const Seen*> seen_after(const std::vector<Life>& lives, Index round, int workers);

/// The message is made where it is told alone: most are not.
template <class Message>
void told(Trial& trial, bool ok, Index round, const Message& message) {
    ++trial.judged.counts.compared;
    if (ok)
        return;
    ++trial.judged.counts.wrong;
    trial.violated(round, message());
}

} // namespace truestep::properties::gasloc

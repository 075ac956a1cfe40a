// The properties of GASLoC.
#pragma once

#include <vector>

#include <truestep/gate/property.hpp>

namespace truestep::properties::gasloc {

/// All properties in the order of section 17; the reference comes last.
[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::properties::gasloc

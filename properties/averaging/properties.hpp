// The properties of local SGD with averaging (section 11).
#pragma once

#include <vector>

#include <truestep/gate/property.hpp>

namespace truestep::properties::averaging {

[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::properties::averaging

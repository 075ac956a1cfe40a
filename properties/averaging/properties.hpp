#pragma once

#include <vector>

#include <truestep/gate/property.hpp>

namespace truestep::properties::averaging {

[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::properties::averaging

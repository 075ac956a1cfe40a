#pragma once

#include <vector>

#include <truestep/gate/property.hpp>

namespace truestep::averaging {

[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::averaging

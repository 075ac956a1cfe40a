#pragma once

#include <vector>

#include <scape/gate/property.hpp>

namespace scape::averaging {

[[nodiscard]] std::vector<gate::Property> properties();

} // namespace scape::averaging

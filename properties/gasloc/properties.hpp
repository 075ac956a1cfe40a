#pragma once

#include <vector>

#include <truestep/gate/property.hpp>

namespace truestep::properties::gasloc {

/// Section 17, in its order; the reference comes last.
[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::properties::gasloc

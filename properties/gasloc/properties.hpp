#pragma once

#include <vector>

#include <scape/gate/property.hpp>

namespace scape::gasloc {

/// Section 17, in its order; the reference comes last.
[[nodiscard]] std::vector<gate::Property> properties();

} // namespace scape::gasloc

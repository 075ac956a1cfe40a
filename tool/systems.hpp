#pragma once

#include <vector>

#include <scape/gate/system.hpp>

namespace scape::tool {

/// Those of tool/systems.txt, in its order.
[[nodiscard]] const std::vector<gate::System>& all_systems();

} // namespace scape::tool

#pragma once

#include <scape/gate/learning.hpp>

namespace scape::properties {

/// How candidates of SCAPE are trained (section 33).
[[nodiscard]] gate::Learning learning();

} // namespace scape::properties

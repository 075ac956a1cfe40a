#pragma once

#include <truestep/gate/learning.hpp>

namespace truestep::properties::scape {

/// How candidates of SCAPE are trained (section 33).
[[nodiscard]] gate::Learning learning();

} // namespace truestep::properties::scape

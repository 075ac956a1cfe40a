// How implementations of SCAPE are trained (section 33).
#pragma once

#include <truestep/gate/learning.hpp>

namespace truestep::properties::scape {

[[nodiscard]] gate::Learning learning();

} // namespace truestep::properties::scape

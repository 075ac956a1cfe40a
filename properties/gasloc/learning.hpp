// How implementations of GASLoC are trained (section 33).
#pragma once

#include <truestep/gate/learning.hpp>

namespace truestep::properties::gasloc {

[[nodiscard]] gate::Learning learning();

} // namespace truestep::properties::gasloc

#pragma once

#include <truestep/gate/learning.hpp>

namespace truestep::properties::gasloc {

/// How candidates of GASLoC are trained (section 33).
[[nodiscard]] gate::Learning learning();

} // namespace truestep::properties::gasloc

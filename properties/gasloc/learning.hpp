#pragma once

#include <scape/gate/learning.hpp>

namespace scape::gasloc {

/// How candidates of GASLoC are trained (section 33).
[[nodiscard]] gate::Learning learning();

} // namespace scape::gasloc

#pragma once

#include <scape/gate/system.hpp>

namespace scape::gasloc {

/// All that the gate has to be told, but for implementations.
[[nodiscard]] gate::System system_of_properties();

} // namespace scape::gasloc

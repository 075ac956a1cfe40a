#pragma once

#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// All that the gate has to be told, but for implementations.
[[nodiscard]] gate::System system_of_properties();

} // namespace truestep::properties::gasloc

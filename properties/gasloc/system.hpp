// GASLoC as a gate::System.
#pragma once

#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// The whole system except for implementations.
[[nodiscard]] gate::System system_of_properties();

} // namespace truestep::properties::gasloc

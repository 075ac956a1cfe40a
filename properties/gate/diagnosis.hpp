#pragma once

#include <string>
#include <vector>

#include <truestep/gate/property.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// Which known mistakes make what a finding's run shows where it first parts from the reference: one line
/// each, as System::what_fits has them; none where no run is told. In a process of its own, for so long at
/// most: a mistake that is tried may crash or hang, which costs the guess and not the gate. `command`
/// repeats it.
[[nodiscard]] std::vector<std::string> what_fits(const System& system, const Finding& finding,
                                                 const std::string& command, double most_seconds = 300.0);

} // namespace truestep::gate

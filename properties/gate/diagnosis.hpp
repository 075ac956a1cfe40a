// The guess at the known bug behind a finding.
#pragma once

#include <string>
#include <vector>

#include <truestep/gate/property.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// Which known bugs make what a finding's run shows where it first differs from the reference, one line
/// each, as System::what_fits returns them; none if the run cannot be saved. It runs in its own process
/// with a time limit: a known bug may crash or hang, which costs the guess and not the gate. `command`
/// repeats it.
[[nodiscard]] std::vector<std::string> what_fits(const System& system, const Finding& finding,
                                                 const std::string& command, double most_seconds = 300.0);

} // namespace truestep::gate

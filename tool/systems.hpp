#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::tool {

/// The systems of tool/systems.txt, in its order.
[[nodiscard]] const std::vector<gate::System>& all_systems();

/// The names of systems that have traces, separated by commas.
[[nodiscard]] std::string with_traces();

/// The system of a trace, by the algorithm that it names. Throws truestep::Error if the file is not
/// a trace, if its system is unknown, or if `wanted` names another one ("": any).
[[nodiscard]] const gate::System& system_of_trace(const std::filesystem::path& path,
                                                  const std::string& wanted = "");

} // namespace truestep::tool

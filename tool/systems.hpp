#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::tool {

/// Those of tool/systems.txt, in its order.
[[nodiscard]] const std::vector<gate::System>& all_systems();

/// The names of those that have traces, with commas between.
[[nodiscard]] std::string with_traces();

/// Whose trace it is, by the algorithm that it names. Throws truestep::Error if it is no trace, or of a
/// system that is not among ours; also where `wanted` names another one ("": any).
[[nodiscard]] const gate::System& system_of_trace(const std::filesystem::path& path,
                                                  const std::string& wanted = "");

} // namespace truestep::tool

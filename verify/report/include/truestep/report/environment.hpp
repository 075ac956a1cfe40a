#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// The environment of a result: versions, compiler and options, compiled features, the machine's
/// processor. Pairs of a name and a value, in the order in which to show them. No host names, no
/// paths.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment();

/// The version, such as "0.1.0".
[[nodiscard]] std::string version();

/// The same for a result file.
[[nodiscard]] nlohmann::ordered_json json_environment();

} // namespace truestep::report

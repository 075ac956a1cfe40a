#pragma once

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// The result files of docs/results.md, in the order given. Throws truestep::Error, "PATH: what is
/// wrong; what to do", for a file that cannot be read, has another format or version, or has
/// missing keys or keys of another type.
[[nodiscard]] std::vector<nlohmann::ordered_json>
read_results(const std::vector<std::filesystem::path>& paths);

} // namespace truestep::report

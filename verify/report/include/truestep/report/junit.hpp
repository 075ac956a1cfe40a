#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// The same results as JUnit: the suites matrix, properties and planted, with a test case for each
/// row. Mistrusted and untested rows count as failures, as everywhere.
[[nodiscard]] std::string junit_xml(const std::vector<nlohmann::ordered_json>& results);

} // namespace truestep::report

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// The same results for machines that read JUnit: the suites matrix, properties and planted, a test case a
/// row. What is mistrusted or untested counts as a failure, as everywhere.
[[nodiscard]] std::string junit_xml(const std::vector<nlohmann::ordered_json>& results);

} // namespace truestep::report

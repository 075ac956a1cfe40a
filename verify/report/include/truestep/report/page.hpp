#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// One self-contained page of one or several result files (docs/results.md): it needs no other
/// file, no script and no network. It omits whatever a result lacks; read_results() refuses
/// malformed ones.
[[nodiscard]] std::string html_page(const std::vector<nlohmann::ordered_json>& results);

/// A page with a row for each result file, which links to the page beside it. Both are seen from `folder`,
/// where it will be.
[[nodiscard]] std::string index_page(const std::vector<std::filesystem::path>& files,
                                     const std::vector<nlohmann::ordered_json>& results,
                                     const std::filesystem::path& folder);

/// The page's headline: "All 378 rows passed", "3 of 378 rows failed".
[[nodiscard]] std::string verdict(const std::vector<nlohmann::ordered_json>& results);

} // namespace truestep::report

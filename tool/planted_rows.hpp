#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <truestep/gate/implementation.hpp>
#include <truestep/gate/property.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>

namespace truestep::tool {

/// Rows of the results of `truestep planted`: a known bug that cannot run here,
[[nodiscard]] nlohmann::ordered_json skipped_row(int number, const std::string& known_bug,
                                                 const gate::Implementation& implementation,
                                                 const std::string& command);
/// one that no property has caught yet,
[[nodiscard]] nlohmann::ordered_json uncaught_row(int number, const std::string& known_bug);
/// and a property that was tested against a clean implementation.
[[nodiscard]] nlohmann::ordered_json clean_row(const gate::Implementation& implementation,
                                               const gate::Property& property,
                                               const gate::SearchResult& result,
                                               const gate::Verdict& verdict, const std::string& command);

} // namespace truestep::tool

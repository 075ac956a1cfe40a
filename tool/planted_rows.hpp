#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <truestep/gate/implementation.hpp>
#include <truestep/gate/property.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>

namespace truestep::tool {

/// What the results of `truestep planted` hold of a mistake that cannot be made here,
[[nodiscard]] nlohmann::ordered_json skipped_row(int number, const std::string& mistake,
                                                 const gate::Implementation& implementation,
                                                 const std::string& command);
/// of one that nobody has caught yet,
[[nodiscard]] nlohmann::ordered_json uncaught_row(int number, const std::string& mistake);
/// and of a property that was asked about somebody without a mistake.
[[nodiscard]] nlohmann::ordered_json clean_row(const gate::Implementation& implementation,
                                               const gate::Property& property,
                                               const gate::SearchResult& result,
                                               const gate::Verdict& verdict, const std::string& command);

} // namespace truestep::tool

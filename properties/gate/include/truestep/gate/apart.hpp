#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <truestep/gate/processes.hpp>
#include <truestep/gate/search.hpp>

// Searches between processes.

namespace truestep::gate {

/// `search`, after it has ended the process that it ran in, if it has: then each case has one of its own,
/// and one that crashes, or takes more than `most_seconds`, is a counterexample.
[[nodiscard]] SearchResult search_again(const System& system, const Implementation& implementation,
                                        const Property& property, const SearchOptions& options,
                                        const Ended& before, double most_seconds,
                                        const std::string& source);

// `source`: what a counterexample's trace says that it comes from; "" keeps none.
[[nodiscard]] nlohmann::ordered_json to_json(const SearchResult& result, const std::string& source);
[[nodiscard]] SearchResult search_result(const nlohmann::ordered_json& json);

} // namespace truestep::gate

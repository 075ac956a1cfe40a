#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <truestep/gate/processes.hpp>
#include <truestep/gate/search.hpp>

// A search in processes of its own, after the process of the first one has crashed or hung.

namespace truestep::gate {

/// Like `search`, but if the process that ran it has ended, each case gets its own process, and a case that
/// crashes or takes more than `most_seconds` is a counterexample.
[[nodiscard]] SearchResult search_again(const System& system, const Implementation& implementation,
                                        const Property& property, const SearchOptions& options,
                                        const ProcessEnd& before, double most_seconds,
                                        const std::string& source);

// `source`: where a counterexample's trace says that it comes from; "": no trace is written.
[[nodiscard]] nlohmann::ordered_json to_json(const SearchResult& result, const std::string& source);
[[nodiscard]] SearchResult search_result(const nlohmann::ordered_json& json);

} // namespace truestep::gate

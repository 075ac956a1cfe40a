#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <scape/properties/search.hpp>

namespace scape::properties {

/// A counterexample for people: what does not hold, the values around, the case. Several lines.
[[nodiscard]] std::string failure_text(const Counterexample& found);

/// And for programs, with the shrunk problem drawn: docs/results.md. `trace` is the file it was saved to,
/// or "".
[[nodiscard]] nlohmann::ordered_json failure_json(const Counterexample& found, const std::string& trace);

} // namespace scape::properties

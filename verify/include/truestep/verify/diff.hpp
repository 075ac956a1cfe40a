// Comparing two traces of one system.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

struct TraceDifference {
    std::vector<std::string> settings; ///< the differences before the first step, a line each
    std::optional<Divergence> input;   ///< the first input of a step that differs
    std::optional<Divergence> result;  ///< the first result that differs; a is "expected", b is "got"
    Index compared = 0;                ///< result values held by both
    std::vector<std::string> notes;
    problem::Layout layout; ///< of a
    Words words = {};

    [[nodiscard]] bool same() const { return settings.empty() && !input && !result; }
};

/// Compares two traces of one system bit by bit, as far as both go. Throws truestep::Error if they have no
/// result in common.
[[nodiscard]] TraceDifference diff_traces(const trace::Reader& a, const trace::Reader& b);

} // namespace truestep::verify

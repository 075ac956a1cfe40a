#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <scape/verify/verify_trace.hpp>

namespace scape::verify {

struct TraceDifference {
    std::vector<std::string> settings; ///< what differs before the first step, a line each
    std::optional<Divergence> input;   ///< the first gradient that differs
    std::optional<Divergence> result;  ///< the first result that differs; a stands for expected, b for got
    Index compared = 0;                ///< result values held by both
    std::vector<std::string> notes;
    problem::Layout layout; ///< of a

    [[nodiscard]] bool same() const { return settings.empty() && !input && !result; }
};

/// Compares two traces bit by bit, as far as both go. Throws scape::Error if one cannot be read or they
/// have no result in common.
[[nodiscard]] TraceDifference diff_traces(const std::filesystem::path& a, const std::filesystem::path& b);

} // namespace scape::verify

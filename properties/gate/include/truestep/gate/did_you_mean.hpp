// Suggestions for mistyped words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace truestep::gate {

/// "; did you mean 'check'?", or "" if no known word is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

} // namespace truestep::gate

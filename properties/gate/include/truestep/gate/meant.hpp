#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace truestep::gate {

/// "; did you mean 'check'?", or nothing where none of the known words is near.
[[nodiscard]] std::string meant(std::string_view word, const std::vector<std::string>& known);

} // namespace truestep::gate

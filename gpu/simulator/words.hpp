#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace scape::simulator {

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// At blanks, without commas and semicolons.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text);
/// At commas outside of braces.
[[nodiscard]] std::vector<std::string_view> operands_of(std::string_view text);
/// The decimal number that a text begins with; throws std::invalid_argument where there is none.
[[nodiscard]] std::uint64_t number_in(std::string_view text);

} // namespace scape::simulator

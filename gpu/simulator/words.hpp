#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::simulator {

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// Splits at blanks and drops commas and semicolons.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text);
/// Splits at commas outside of braces.
[[nodiscard]] std::vector<std::string_view> operands_of(std::string_view text);
/// The decimal number at the begin of a text; throws std::invalid_argument if there is none.
[[nodiscard]] std::uint64_t number_in(std::string_view text);

/// A parameter or shared memory, as in ".align 8 .b8 name[24]".
struct Declaration {
    std::string name;
    std::uint64_t align = 1;
    std::uint64_t bytes = 0;
};
[[nodiscard]] Declaration declared(std::string_view text);

constexpr std::uint64_t aligned_to(std::uint64_t align, std::uint64_t at) {
    return (at + align - 1) / align * align;
}

} // namespace truestep::simulator

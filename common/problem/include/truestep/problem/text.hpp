// Numbers as text and back, and text that is safe in messages.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace truestep {

/// The shortest decimal that reads back as the same number.
template <class Real>
[[nodiscard]] std::string shortest(Real value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

/// Parses the whole text as a number, or returns nothing. `base` is for whole numbers that are not
/// decimal.
template <class Number, class... Base>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Base... base) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
    if (error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

/// Parses numbers separated by commas, or returns nothing.
template <class Number>
[[nodiscard]] std::optional<std::vector<Number>> parse_numbers(std::string_view text) {
    std::vector<Number> numbers;
    while (true) {
        const std::size_t comma = text.find(',');
        const auto number = parse_number<Number>(text.substr(0, comma));
        if (!number)
            return std::nullopt;
        numbers.push_back(*number);
        if (comma == std::string_view::npos)
            return numbers;
        text.remove_prefix(comma + 1);
    }
}

/// Makes a text from a file safe for messages and reports: without control characters.
[[nodiscard]] inline std::string one_line(std::string text) {
    for (char& letter : text)
        if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
            letter = ' ';
    return text;
}

} // namespace truestep

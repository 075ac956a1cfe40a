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

/// All of a text as a number, or nothing. `base`: of a whole number, other than 10.
template <class Number, class... Base>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Base... base) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
    if (error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

/// Numbers with commas between; nothing where something else is among them.
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

/// A text from a file as it goes into a message or a report: without control characters.
[[nodiscard]] inline std::string one_line(std::string text) {
    for (char& letter : text)
        if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
            letter = ' ';
    return text;
}

} // namespace truestep

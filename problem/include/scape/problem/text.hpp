#pragma once

#include <array>
#include <charconv>
#include <string>

namespace scape {

/// The shortest decimal that reads back as the same number.
template <class Real>
[[nodiscard]] std::string shortest(Real value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

/// A text from a file as it goes into a message or a report: without control characters.
[[nodiscard]] inline std::string one_line(std::string text) {
    for (char& letter : text)
        if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
            letter = ' ';
    return text;
}

} // namespace scape

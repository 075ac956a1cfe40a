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

} // namespace scape

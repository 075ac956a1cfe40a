// A setting's value as messages and checkpoints write it.
#pragma once

#include <concepts>
#include <string>

#include <truestep/problem/text.hpp>

namespace truestep {

/// A word by its name(), which the choice's namespace has.
template <class Value>
[[nodiscard]] std::string value_text(const Value& value) {
    if constexpr (std::floating_point<Value>)
        return shortest(value);
    else if constexpr (std::integral<Value>)
        return std::to_string(value);
    else
        return std::string(name(value));
}

} // namespace truestep

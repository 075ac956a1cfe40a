// Values on which ranks have to agree when they begin: as they travel, and as a message shows them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/value_text.hpp>

namespace truestep::distributed {

/// A value travels as its bits, so that every bit is compared.
struct AgreedValue {
    std::string what;
    std::uint64_t bits = 0;
    /// Without it the bits are a digest: `what` is then "other parameters", and a message says only
    /// that they differ.
    std::string (*shown)(std::uint64_t bits) = nullptr;
};

template <class Value>
[[nodiscard]] AgreedValue agreed_value(std::string what, Value value) {
    if constexpr (std::floating_point<Value>)
        return {std::move(what), std::bit_cast<std::uint64_t>(value),
                [](std::uint64_t bits) { return value_text(std::bit_cast<Value>(bits)); }};
    else
        return {std::move(what), static_cast<std::uint64_t>(value),
                [](std::uint64_t bits) { return value_text(static_cast<Value>(bits)); }};
}

/// One length for all ranks, whichever values they have.
using AgreedRecord = std::array<std::uint64_t, 32>;

[[nodiscard]] inline AgreedRecord record_of(const std::vector<AgreedValue>& values) {
    AgreedRecord record{};
    if (values.size() > record.size())
        throw std::logic_error("agreed_values.hpp has room for 32 values");
    std::ranges::transform(values, record.begin(), &AgreedValue::bits);
    return record;
}

/// The first value in which the second record differs from the first, or "". `than` names the first,
/// and `where` introduces its value.
[[nodiscard]] inline std::string difference(const std::vector<AgreedValue>& values,
                                            const AgreedRecord& first, const std::string& than,
                                            const std::string& where, const AgreedRecord& second) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (const auto& [what, bits, shown] = values[i]; first[i] != second[i])
            return shown == nullptr ? what + " than " + than
                                    : what + " " + shown(second[i]) + where + " has " + shown(first[i]);
    return {};
}

} // namespace truestep::distributed

// A digest by which ranks compare vectors and lists without sending them.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include <truestep/problem/mix64.hpp>

namespace truestep::problem {

/// A number that changes with any bit of what was added, and with its order.
class Digest {
  public:
    // Both mixings are one-to-one, so no single change is lost.
    void add(std::uint64_t bits) { value_ = mix64(value_ + 0x9e37'79b9'7f4a'7c15U + mix64(bits)); }
    void add(std::span<const float> values) {
        add(values.size());
        for (const float value : values)
            add(std::bit_cast<std::uint32_t>(value));
    }
    [[nodiscard]] std::uint64_t value() const { return value_; }

  private:
    std::uint64_t value_ = 0x243f'6a88'85a3'08d3U;
};

[[nodiscard]] inline std::uint64_t digest_of(std::span<const float> values) {
    Digest digest;
    digest.add(values);
    return digest.value();
}

} // namespace truestep::problem

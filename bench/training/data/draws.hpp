#pragma once

#include <cstdint>

#include <truestep/problem/mix64.hpp>

namespace truestep::training {

/// The purpose of a draw, so that no two draws share their bits.
enum class Stream : std::uint64_t { successors, weights, symbol, state, distance };

/// The numbers of one stream, each by its index alone: those of section 14.
class Draws {
  public:
    Draws(std::uint64_t seed, Stream stream)
        : start_(problem::mix64(seed ^ problem::mix64(static_cast<std::uint64_t>(stream) + 1))) {}
    [[nodiscard]] std::uint64_t operator[](std::uint64_t index) const {
        return problem::mix64(start_ + (index * 0x9e37'79b9'7f4a'7c15U));
    }

  private:
    std::uint64_t start_;
};

// 128 bits are an extension of the compiler.
__extension__ using Wide = unsigned __int128;

/// A number below `limit` from 64 bits: the high half of their product.
[[nodiscard]] inline std::uint64_t below(std::uint64_t bits, std::uint64_t limit) {
    return static_cast<std::uint64_t>((Wide{bits} * limit) >> 64U);
}

} // namespace truestep::training

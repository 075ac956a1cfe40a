// The code in which masks travel between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <truestep/distributed/mask.hpp>
#include <truestep/problem/partition.hpp>

namespace truestep::distributed::scape {

/// How the bits of a segment travel. All ranks derive it from n and k, so only the bits travel, and
/// every message has a size that is known before it is sent.
enum class SegmentCode : std::uint8_t {
    nothing,   ///< all n are selected: no bits are needed
    bitmap,    ///< ceil(n/8) bytes
    positions, ///< blocks of 255: ceil(n/255) counts, then k positions in their block
};

/// The smallest of the codes; `bitmap` on a tie of the other two.
[[nodiscard]] SegmentCode code_of(Index n, Index k);
[[nodiscard]] std::size_t coded_bytes(Index n, Index k);

/// The code of one mask: its segments' codes, one after the other.
class MaskCode {
  public:
    /// A segment, and how many of its coordinates the mask selects.
    struct Part {
        Index begin = 0;
        Index end = 0;
        Index k = 0;

        bool operator==(const Part&) const = default;
    };

    /// The total bytes of these segments.
    [[nodiscard]] static std::size_t bytes(std::span<const Part> parts);

    /// Writes the bits of `mask` in the segments to `code`, which has bytes(parts) of room.
    static void encode(std::span<const Part> parts, const Mask& mask, std::uint8_t* code) {
        encode(parts, mask.words(), 0, code);
    }
    /// The same for words that begin at the coordinate `first`, a multiple of Mask::word_bits.
    static void encode(std::span<const Part> parts, const std::uint64_t* words, Index first,
                       std::uint8_t* code);

    /// Replaces the segments' bits in `mask`. Throws CorruptMask if the code does not fit these
    /// segments and ks: it comes from a rank with another problem, or was damaged on the way.
    static void decode(std::span<const Part> parts, const std::uint8_t* code, Mask& mask);
};

class CorruptMask : public std::runtime_error {
  public:
    explicit CorruptMask(const std::string& text) : std::runtime_error(text) {}
};

} // namespace truestep::distributed::scape

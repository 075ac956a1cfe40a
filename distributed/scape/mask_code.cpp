// Encodes a mask's segments as bitmaps or positions, whichever is smaller, and decodes them.
#include <truestep/distributed/scape/mask_code.hpp>

#include <numeric>

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::scape {

namespace {

constexpr Index block = host::position_block;

std::size_t bitmap_bytes(Index n) {
    return static_cast<std::size_t>((n + 7) / 8);
}
std::size_t position_bytes(Index n, Index k) {
    return static_cast<std::size_t>((n + block - 1) / block + k);
}

[[noreturn]] void corrupt(const MaskCode::Part& part, const std::string& what) {
    throw CorruptMask("mask code of coordinates [" + std::to_string(part.begin) + ", " +
                      std::to_string(part.end) + "), k = " + std::to_string(part.k) + ": " + what +
                      "; the sender has another problem, or the message was damaged");
}

/// Clears the part's bits in its first and last word, which may have other parts' bits.
void clear_ends(const MaskCode::Part& part, std::uint64_t* words) {
    const Index first = part.begin / Mask::word_bits;
    const Index last = (part.end - 1) / Mask::word_bits;
    const std::uint64_t from_begin = ~std::uint64_t{0}
                                     << static_cast<unsigned>(part.begin % Mask::word_bits);
    const std::uint64_t to_end =
        ~std::uint64_t{0} >> static_cast<unsigned>((last + 1) * Mask::word_bits - part.end);
    words[first] &= ~(first == last ? from_begin & to_end : from_begin);
    words[last] &= ~(first == last ? from_begin & to_end : to_end);
}

/// Reports why a code could not be decoded.
[[noreturn]] void explain_bitmap(const MaskCode::Part& part, const std::uint8_t* code) {
    const Index n = part.end - part.begin;
    Index found = 0;
    for (Index bit = 0; bit < (n + 7) / 8 * 8; ++bit)
        if (((code[bit / 8] >> static_cast<unsigned>(bit % 8)) & 1U) != 0) {
            if (bit >= n)
                corrupt(part, "a bit beyond the end");
            ++found;
        }
    corrupt(part, std::to_string(found) + " bits");
}

[[noreturn]] void explain_positions(const MaskCode::Part& part, const std::uint8_t* counts) {
    const Index blocks = (part.end - part.begin + block - 1) / block;
    const Index total = std::accumulate(counts, counts + blocks, Index{0});
    if (total != part.k)
        corrupt(part, total > part.k ? "counts of more than k" : "counts of less than k");
    corrupt(part, "positions that do not ascend in their block");
}

} // namespace

SegmentCode code_of(Index n, Index k) {
    if (k == n)
        return SegmentCode::nothing;
    return position_bytes(n, k) < bitmap_bytes(n) ? SegmentCode::positions : SegmentCode::bitmap;
}

std::size_t coded_bytes(Index n, Index k) {
    switch (code_of(n, k)) {
    case SegmentCode::nothing:
        return 0;
    case SegmentCode::bitmap:
        return bitmap_bytes(n);
    case SegmentCode::positions:
        break;
    }
    return position_bytes(n, k);
}

std::size_t MaskCode::bytes(std::span<const Part> parts) {
    std::size_t total = 0;
    for (const Part& part : parts)
        total += coded_bytes(part.end - part.begin, part.k);
    return total;
}

void MaskCode::encode(std::span<const Part> parts, const std::uint64_t* words, Index first,
                      std::uint8_t* code) {
    for (const Part& part : parts) {
        const Index n = part.end - part.begin;
        const SegmentCode kind = code_of(n, part.k);
        std::uint8_t* const end = code + coded_bytes(n, part.k);
        if (kind == SegmentCode::bitmap)
            host::encode_bitmap(words, part.begin - first, part.end - first, code);
        else if (kind == SegmentCode::positions)
            host::encode_positions(words, part.begin - first, part.end - first, code,
                                   code + (n + block - 1) / block, end);
        code = end;
    }
}

void MaskCode::decode(std::span<const Part> parts, const std::uint8_t* code, Mask& mask) {
    for (const Part& part : parts) {
        const Index n = part.end - part.begin;
        clear_ends(part, mask.words());
        switch (code_of(n, part.k)) {
        case SegmentCode::nothing:
            mask.set_range(part.begin, part.end);
            break;
        case SegmentCode::bitmap:
            if (!host::decode_bitmap(code, part.begin, part.end, part.k, mask.words()))
                explain_bitmap(part, code);
            break;
        case SegmentCode::positions:
            if (!host::decode_positions(code, code + (n + block - 1) / block, part.begin, part.end, part.k,
                                        mask.words()))
                explain_positions(part, code);
            break;
        }
        code += coded_bytes(n, part.k);
    }
}

} // namespace truestep::distributed::scape

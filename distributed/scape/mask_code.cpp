#include <scape/distributed/mask_code.hpp>

#include <algorithm>
#include <bit>

namespace scape::distributed {

namespace {

/// Not 256: a count of 0 to 255 fits a byte, and a full block needs no escape.
constexpr Index block = 255;

std::size_t bitmap_bytes(Index n) {
    return static_cast<std::size_t>((n + 7) / 8);
}
std::size_t position_bytes(Index n, Index k) {
    return static_cast<std::size_t>((n + block - 1) / block + k);
}

/// Calls `visit(index)` for each selected coordinate of [begin, end), ascending.
template <class Visit>
void for_each_selected(const Mask& mask, Index begin, Index end, Visit visit) {
    for (Index at = begin; at < end;) {
        const Index word = at / Mask::word_bits;
        const Index word_end = std::min(end, (word + 1) * Mask::word_bits);
        std::uint64_t bits = mask.words()[word] >> static_cast<unsigned>(at % Mask::word_bits);
        if (word_end - at < Mask::word_bits)
            bits &= (std::uint64_t{1} << static_cast<unsigned>(word_end - at)) - 1;
        for (; bits != 0; bits &= bits - 1)
            visit(at + std::countr_zero(bits));
        at = word_end;
    }
}

void encode_bitmap(const MaskCode::Part& part, const Mask& mask, std::uint8_t* code) {
    std::fill_n(code, bitmap_bytes(part.end - part.begin), std::uint8_t{0});
    for_each_selected(mask, part.begin, part.end, [&](Index index) {
        const Index bit = index - part.begin;
        code[bit / 8] = static_cast<std::uint8_t>(code[bit / 8] | (1U << static_cast<unsigned>(bit % 8)));
    });
}

void encode_positions(const MaskCode::Part& part, const Mask& mask, std::uint8_t* code) {
    const Index blocks = (part.end - part.begin + block - 1) / block;
    std::uint8_t* counts = code;
    std::uint8_t* positions = code + blocks;
    std::fill_n(counts, blocks, std::uint8_t{0});
    Index number = 0;
    Index block_end = part.begin + block;
    for_each_selected(mask, part.begin, part.end, [&](Index index) {
        for (; index >= block_end; block_end += block)
            ++number;
        ++counts[number];
        *positions++ = static_cast<std::uint8_t>(index - (block_end - block));
    });
}

[[noreturn]] void corrupt(const MaskCode::Part& part, const std::string& what) {
    throw CorruptMask("mask code of coordinates [" + std::to_string(part.begin) + ", " +
                      std::to_string(part.end) + "), k = " + std::to_string(part.k) + ": " + what +
                      "; the sender has another problem, or the message was damaged");
}

void decode_bitmap(const MaskCode::Part& part, const std::uint8_t* code, Mask& mask) {
    const Index n = part.end - part.begin;
    Index found = 0;
    for (Index byte = 0; byte * 8 < n; ++byte)
        for (auto bits = static_cast<unsigned>(code[byte]); bits != 0; bits &= bits - 1) {
            const Index bit = byte * 8 + std::countr_zero(bits);
            if (bit >= n)
                corrupt(part, "a bit beyond the end");
            mask.set(part.begin + bit);
            ++found;
        }
    if (found != part.k)
        corrupt(part, std::to_string(found) + " bits");
}

void decode_positions(const MaskCode::Part& part, const std::uint8_t* code, Mask& mask) {
    const Index n = part.end - part.begin;
    const Index blocks = (n + block - 1) / block;
    const std::uint8_t* positions = code + blocks;
    Index left = part.k;
    for (Index number = 0; number < blocks; ++number) {
        const Index begin = number * block;
        const Index size = std::min(block, n - begin);
        Index before = -1;
        for (Index count = code[number]; count > 0; --count) {
            if (--left < 0)
                corrupt(part, "counts of more than k");
            const Index position = *positions++;
            if (position <= before || position >= size)
                corrupt(part, "positions that do not ascend in their block");
            mask.set(part.begin + begin + position);
            before = position;
        }
    }
    if (left != 0)
        corrupt(part, "counts of less than k");
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

void MaskCode::encode(std::span<const Part> parts, const Mask& mask, std::uint8_t* code) {
    for (const Part& part : parts) {
        const SegmentCode kind = code_of(part.end - part.begin, part.k);
        if (kind == SegmentCode::bitmap)
            encode_bitmap(part, mask, code);
        else if (kind == SegmentCode::positions)
            encode_positions(part, mask, code);
        code += coded_bytes(part.end - part.begin, part.k);
    }
}

void MaskCode::decode(std::span<const Part> parts, const std::uint8_t* code, Mask& mask) {
    for (const Part& part : parts) {
        switch (code_of(part.end - part.begin, part.k)) {
        case SegmentCode::nothing:
            mask.set_range(part.begin, part.end);
            break;
        case SegmentCode::bitmap:
            decode_bitmap(part, code, mask);
            break;
        case SegmentCode::positions:
            decode_positions(part, code, mask);
            break;
        }
        code += coded_bytes(part.end - part.begin, part.k);
    }
}

} // namespace scape::distributed

// Bits of masks in whole words: counts, and the codes in which they travel. Each variant includes
// it once, within its anonymous namespace, behind packed.hpp; hence no include guard.

TRUESTEP_TARGET Index count_words(const std::uint64_t* words, Index count) {
    Index total = 0;
    for (Index i = 0; i < count; ++i)
        total += std::popcount(words[i]);
    return total;
}

TRUESTEP_TARGET Index count_common(const std::uint64_t* a, const std::uint64_t* b, Index count) {
    Index total = 0;
    for (Index i = 0; i < count; ++i)
        total += std::popcount(a[i] & b[i]);
    return total;
}

/// The `count` bits from bit `at` on, 1 to 64 of them; touches only words that hold some of them.
TRUESTEP_TARGET inline std::uint64_t bits_at(const std::uint64_t* words, Index at, Index count) {
    const auto shift = static_cast<unsigned>(at % word_bits);
    std::uint64_t bits = words[at / word_bits] >> shift;
    if (static_cast<Index>(shift) + count > word_bits)
        bits |= words[at / word_bits + 1] << (static_cast<unsigned>(word_bits) - shift);
    return count == word_bits ? bits : bits & ((std::uint64_t{1} << static_cast<unsigned>(count)) - 1);
}

TRUESTEP_TARGET void encode_bitmap(const std::uint64_t* words, Index begin, Index end, std::uint8_t* code) {
    for (; begin + word_bits <= end; begin += word_bits, code += sizeof(std::uint64_t)) {
        const std::uint64_t bits = bits_at(words, begin, word_bits);
        std::memcpy(code, &bits, sizeof bits);
    }
    if (begin < end) {
        std::uint64_t bits = bits_at(words, begin, end - begin);
        for (Index left = end - begin; left > 0; left -= 8, bits >>= 8U)
            *code++ = static_cast<std::uint8_t>(bits);
    }
}

TRUESTEP_TARGET bool decode_bitmap(const std::uint8_t* code, Index begin, Index end, Index k,
                                   std::uint64_t* words) {
    Index found = 0;
    const Index last = (end - 1) / word_bits;
    const std::uint64_t of_others = words[last];
    const auto shift = static_cast<unsigned>(begin % word_bits);
    std::uint64_t current = words[begin / word_bits];
    for (; begin < end; begin += word_bits) {
        const Index count = word_bits < end - begin ? word_bits : end - begin;
        std::uint64_t bits = 0;
        std::memcpy(&bits, code, static_cast<std::size_t>((count + 7) / 8));
        code += sizeof bits;
        if (count < word_bits && bits >> static_cast<unsigned>(count) != 0)
            return false;
        found += std::popcount(bits);
        words[begin / word_bits] = current | bits << shift;
        current = bits >> 1U >> (63U - shift); // all of it, for a shift of 0
        if (static_cast<Index>(shift) + count > word_bits)
            words[begin / word_bits + 1] = current;
    }
    words[last] |= of_others;
    return found == k;
}

/// Encodes positions, a block at a time.
TRUESTEP_TARGET void plain_encode_positions(const std::uint64_t* words, Index begin, Index end,
                                            std::uint8_t* counts, std::uint8_t* positions,
                                            const std::uint8_t* /*positions_end*/) {
    for (; begin < end; begin += position_block) {
        const std::uint8_t* const first = positions;
        const Index size = position_block < end - begin ? position_block : end - begin;
        for (Index at = 0; at < size; at += word_bits) {
            const Index count = word_bits < size - at ? word_bits : size - at;
            for (std::uint64_t bits = bits_at(words, begin + at, count); bits != 0; bits &= bits - 1)
                *positions++ = static_cast<std::uint8_t>(at + std::countr_zero(bits));
        }
        *counts++ = static_cast<std::uint8_t>(positions - first);
    }
}

/// Whether the counts of the code add up to k positions.
TRUESTEP_TARGET inline bool counts_to(const std::uint8_t* counts, Index blocks, Index k) {
    Index total = 0;
    for (Index i = 0; i < blocks; ++i)
        total += counts[i];
    return total == k;
}

/// Decodes as many positions as the counts say. Bits of other segments stay.
TRUESTEP_TARGET bool decode_each(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                                 Index end, std::uint64_t* words) {
    const Index last = (end - 1) / word_bits;
    const std::uint64_t of_others = words[last];
    Index word = begin / word_bits;
    std::uint64_t current = words[word];
    if (word < last)
        std::memset(words + word + 1, 0, static_cast<std::size_t>(last - word) * sizeof *words);
    // A word is stored with each of its bits, and never read: no load waits for the store before
    // it.
    for (; begin < end; begin += position_block) {
        const Index size = position_block < end - begin ? position_block : end - begin;
        Index before = -1;
        for (Index left = *counts++; left > 0; --left) {
            const Index position = *positions++;
            if (position <= before || position >= size)
                return false;
            before = position;
            const Index at = begin + position;
            current = (at / word_bits == word ? current : 0) | std::uint64_t{1}
                                                                   << static_cast<unsigned>(at % word_bits);
            word = at / word_bits;
            words[word] = current;
        }
    }
    words[last] |= of_others;
    return true;
}

[[maybe_unused]] TRUESTEP_TARGET bool plain_decode_positions(const std::uint8_t* counts,
                                                             const std::uint8_t* positions, Index begin,
                                                             Index end, Index k, std::uint64_t* words) {
    return counts_to(counts, (end - begin + position_block - 1) / position_block, k) &&
           decode_each(counts, positions, begin, end, words);
}

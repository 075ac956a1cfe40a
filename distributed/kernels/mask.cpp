// Fills ranges of a mask, and counts its bits so that packed offsets are found quickly.
#include <truestep/distributed/mask.hpp>

#include <algorithm>

#include "table.hpp"

namespace truestep::distributed {

void Mask::set_range(Index begin, Index end) {
    while (begin < end) {
        const Index in_word = begin % word_bits;
        const Index count = std::min(word_bits - in_word, end - begin);
        const std::uint64_t ones = count == word_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        words_[static_cast<std::size_t>(begin / word_bits)] |= ones << in_word;
        begin += count;
    }
}

void Mask::count() {
    constexpr std::size_t words_in_chunk = chunk / word_bits;
    const auto count_words = host::table().count_words;
    Index total = 0;
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
        offsets_[i] = total;
        const std::size_t begin = i * words_in_chunk;
        total += count_words(words_.data() + begin,
                             static_cast<Index>(std::min(words_in_chunk, words_.size() - begin)));
    }
    offsets_.back() = total;
}

Index Mask::offset(Index index) const {
    const Index chunk_begin = index / chunk * chunk;
    const Index at = index / word_bits * word_bits;
    Index total =
        offset_of_chunk(chunk_begin) +
        host::table().count_words(words_.data() + chunk_begin / word_bits, (at - chunk_begin) / word_bits);
    if (at < index) {
        const std::uint64_t below = (std::uint64_t{1} << static_cast<unsigned>(index - at)) - 1;
        total += std::popcount(words_[static_cast<std::size_t>(at / word_bits)] & below);
    }
    return total;
}

} // namespace truestep::distributed

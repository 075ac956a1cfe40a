#include <scape/distributed/mask.hpp>

#include <algorithm>

namespace scape::distributed {

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
    Index total = 0;
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
        offsets_[i] = total;
        const std::size_t end = std::min(words_.size(), (i + 1) * words_in_chunk);
        for (std::size_t word = i * words_in_chunk; word < end; ++word)
            total += std::popcount(words_[word]);
    }
    offsets_.back() = total;
}

Index Mask::offset(Index index) const {
    const Index chunk_begin = index / chunk * chunk;
    Index total = offset_of_chunk(chunk_begin);
    Index at = chunk_begin;
    for (; at + word_bits <= index; at += word_bits)
        total += std::popcount(words_[static_cast<std::size_t>(at / word_bits)]);
    if (at < index) {
        const std::uint64_t below = (std::uint64_t{1} << static_cast<unsigned>(index - at)) - 1;
        total += std::popcount(words_[static_cast<std::size_t>(at / word_bits)] & below);
    }
    return total;
}

} // namespace scape::distributed

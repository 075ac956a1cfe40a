#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed {

using problem::Index;

/// A mask over d coordinates: bits in 64-bit words, and where each chunk's selected coordinates
/// begin in a vector packed on the mask, so that work can be split at chunks.
class Mask {
  public:
    static constexpr Index word_bits = problem::tunable<Index>("word_bits");
    static constexpr Index chunk =
        problem::tunable<Index>("chunk"); ///< coordinates; also the unit in which threads share work

    explicit Mask(Index size)
        : size_(size), words_(static_cast<std::size_t>((size + word_bits - 1) / word_bits), 0),
          offsets_(static_cast<std::size_t>((size + chunk - 1) / chunk) + 1, 0) {}

    [[nodiscard]] Index size() const { return size_; }
    [[nodiscard]] const std::uint64_t* words() const { return words_.data(); }
    [[nodiscard]] std::uint64_t* words() { return words_.data(); }
    [[nodiscard]] std::size_t word_count() const { return words_.size(); }

    /// Exchanges the mask's words for these, which must be as many.
    void swap_words(std::vector<std::uint64_t>& words) { words_.swap(words); }
    void clear() { words_.assign(words_.size(), 0); }
    void set(Index index) { words_[static_cast<std::size_t>(index / word_bits)] |= bit(index); }
    void set_range(Index begin, Index end);
    [[nodiscard]] bool test(Index index) const {
        return (words_[static_cast<std::size_t>(index / word_bits)] & bit(index)) != 0;
    }

    /// Counts the bits, chunk by chunk. Call it when they have changed.
    void count();
    /// The number of selected coordinates.
    [[nodiscard]] Index selected() const { return offsets_.back(); }
    /// The number of selected coordinates before the chunk that begins at `begin`, a multiple of
    /// `chunk` or the size.
    [[nodiscard]] Index offset_of_chunk(Index begin) const {
        return offsets_[static_cast<std::size_t>((begin + chunk - 1) / chunk)];
    }
    /// The number of selected coordinates before any coordinate.
    [[nodiscard]] Index offset(Index index) const;

  private:
    static std::uint64_t bit(Index index) {
        return std::uint64_t{1} << static_cast<unsigned>(index % word_bits);
    }

    Index size_;
    std::vector<std::uint64_t> words_;
    std::vector<Index> offsets_; ///< one per chunk, and the total
};

} // namespace truestep::distributed

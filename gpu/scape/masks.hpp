#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <truestep/distributed/mask.hpp>

#include "algorithms/mask.hpp"

namespace truestep::gpu::scape {

using distributed::Mask;

/// The masks of a step in a machine's memory: S_t, and a second place. That holds the last mask
/// until m has been moved, then the coming one.
template <class Machine>
class Masks {
  public:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    struct Place {
        Vector<std::uint64_t> words;
        Vector<std::uint16_t> ranks;
        Vector<Index> offsets;
        Index selected = 0; ///< known from the ks, without looking
        mutable Mask host{0};
        mutable bool mirrored = false;

        [[nodiscard]] MaskView view() const { return {words.data(), ranks.data(), offsets.data()}; }
    };

    /// Both are empty. The machine has to outlive them.
    Masks(Machine& machine, Index size) : machine_(machine), size_(size) {
        for (Place& place : places_) {
            machine_.resize(place.words, words());
            machine_.resize(place.ranks, words());
            machine_.resize(place.offsets, tiles() + 1);
            machine_.fill(place.words, 0);
            machine_.fill(place.ranks, 0);
            machine_.fill(place.offsets, 0);
        }
        machine_.resize(tile_counts_, tiles());
    }

    [[nodiscard]] Index words() const { return (size_ + word_bits - 1) / word_bits; }
    [[nodiscard]] Index tiles() const { return (size_ + tile - 1) / tile; }

    [[nodiscard]] Place& current() { return places_[current_]; }
    [[nodiscard]] const Place& current() const { return places_[current_]; }
    [[nodiscard]] Place& coming() { return places_[1 - current_]; }
    [[nodiscard]] const Place& coming() const { return places_[1 - current_]; }
    [[nodiscard]] Place& last() { return places_[1 - current_]; }
    void advance() { current_ = 1 - current_; }

    /// Computes ranks and offsets of the words that [begin, end) touches, from the begin of their
    /// tile.
    void count(Place& place, Index begin, Index end) {
        const Index first = begin / tile;
        const Index last = (end + tile - 1) / tile;
        const Index first_word = first * tile_words;
        const Index last_word = std::min(last * tile_words, words());
        machine_.template run<CountWords>((last_word - first_word + CountWords::words - 1) /
                                              CountWords::words,
                                          {first_word, last_word, place.view(), tile_counts_.data()});
        sums_.run(machine_, tile_counts_.data(), last - first, place.offsets.data() + first);
    }

    /// Where a kernel that makes ranks writes what each tile selects; sum_up() makes the offsets
    /// from it.
    [[nodiscard]] std::uint32_t* tile_counts() { return tile_counts_.data(); }
    void sum_up(Place& place) { sums_.run(machine_, tile_counts_.data(), tiles(), place.offsets.data()); }

    void set(Place& place, const Mask& host) {
        machine_.upload(place.words.data(), host.words(), words());
        count(place, 0, size_);
        place.selected = host.selected();
        place.mirrored = false;
    }

    /// The mask in the host's memory, where it stays until the place gets another one.
    [[nodiscard]] const Mask& mirror(const Place& place) const {
        if (!place.mirrored) {
            place.host = Mask(size_);
            machine_.download(place.host.words(), place.words.data(), words());
            place.host.count();
            place.mirrored = true;
        }
        return place.host;
    }

  private:
    Machine& machine_;
    Index size_;
    Place places_[2];
    std::size_t current_ = 0;
    Vector<std::uint32_t> tile_counts_;
    OffsetsOf<Machine> sums_;
};

} // namespace truestep::gpu::scape

#pragma once

#include <cstddef>

#include <truestep/distributed/element.hpp>

#include "mask.hpp"

// Selects the top k of each segment (section 4.3) in section 5's total order: larger score first,
// then the lower coordinate.
//
// Let T be the k-th largest score. All scores above T are selected, and the first few of those that
// equal it. A bracket around the last step's threshold needs one pass over memory. The pass selects
// scores above the bracket at once and puts those inside aside; T is then found among these, digit
// by digit. If the bracket does not hold T, or too much is inside, T is looked for among all
// coordinates, with the same result. The order of what was put aside does not matter: it is only
// counted, or looked up by its coordinate. For whole tiles the local pass has already done the one
// pass (local.hpp).
//
// The launches are always the same, in this order: Prepare, Bracket, Judge, 3 times (Digit, Pick),
// TieCount, Offsets of the ties, Take. A segment that does not need a launch returns at once.

namespace truestep::gpu::scape {

enum class SegmentCode : std::uint32_t { nothing, bitmap, positions };

/// A segment, how many coordinates it selects, and where its code is among the codes of the same
/// message. These tables change with the density.
struct Segment {
    Index begin;
    Index end;
    Index k;
    Index first_part; ///< its groups, or its tiles of code
    Index last_part;
    Index code;
    SegmentCode kind;
};

/// A block's share of a segment: up to group_tiles tiles. Each tile has a cell, the place for its
/// candidates. Groups are the same at every step.
struct Group {
    Index begin;
    Index end;
    Index segment;
    Index first_cell; ///< the number of its first tile's
};
constexpr Index most_group_tiles = problem::tunable<Index>("most_group_tiles");
/// Coordinates whose scores a block holds at once.
constexpr Index sweep = tile / 2;
/// Candidates that fit into a cell: a part of a tile's coordinates.
constexpr Index cell_room = tile / 8;

enum class SearchState : std::uint32_t {
    whole,      ///< all are selected, and nothing is to be looked for
    bracket,    ///< what is above the bracket is being selected
    candidates, ///< T is one of the candidates
    everywhere, ///< T may be any coordinate's
};

/// The state of a segment's search: T >= low, and T is the rank-th largest score from low to the
/// end of the digit.
struct Search {
    SearchState state;
    std::uint32_t low;
    Index rank;
    Index equal;        ///< once T is low: how many equal it
    std::uint32_t hint; ///< where the next threshold should be, and 1; or 0
    std::uint32_t last; ///< the last one, and 1; or 0
};

constexpr std::uint32_t no_key = 0xffff'ffffU;
constexpr std::uint32_t greatest_key = 0x7fff'ffffU;
constexpr int digit_bins = 2048; ///< of the first digit; the others have half as many
constexpr std::uint32_t first_shift = 20;
constexpr std::uint32_t second_shift = 10;
/// A bracket is as wide as a bin of the first digit, so its candidates start with the second.
constexpr std::uint32_t bracket_width = 1U << first_shift;

/// Guesses the next threshold: it moves as far as the last time, unless that was a jump. Only the
/// speed depends on it.
TRUESTEP_BLOCK std::uint32_t guess_from(std::uint32_t found, std::uint32_t last) {
    constexpr Index jump = Index{1} << 22;
    const Index drift = last == 0 ? 0 : Index{found} - (Index{last} - 1);
    const Index next = Index{found} + drift;
    const bool goes_on = drift > -jump && drift < jump && next > jump && next < greatest_key - jump;
    return goes_on ? static_cast<std::uint32_t>(next) : found;
}

struct SelectArguments {
    const Segment* segments;
    const Group* groups;
    Search* searches;
    std::uint32_t* bins; ///< digit_bins for each segment, 0 where they are not in use
    const float* e;
    MaskView current;
    const float* payload;    ///< c where `current` has a bit
    std::uint32_t* keys;     ///< of the candidates, `cell_room` for each cell
    std::uint16_t* places;   ///< and their coordinates, from the tile's begin
    std::uint32_t* above;    ///< of each cell: how many are above the bracket,
    std::uint32_t* inside;   ///< and inside, more than `cell_room` if there was none for all
    std::uint32_t* ties;     ///< of each group: how many equal T, where that matters,
    const Index* tie_offset; ///< and how many do in the groups before
    std::uint64_t* next;     ///< the words of the mask in the making
    std::uint32_t shift;     ///< of the digit
    bool looked_at;          ///< a local pass has done what Bracket does with whole tiles
};

TRUESTEP_BLOCK Index first_tile(const Group& group) {
    return group.begin / tile * tile;
}
TRUESTEP_BLOCK int cells_of(const Group& group) {
    return static_cast<int>((group.end - 1) / tile - group.begin / tile) + 1;
}
/// Whether the whole tile at `begin` belongs to the group.
TRUESTEP_BLOCK bool is_whole(const Group& group, Index begin) {
    return begin >= group.begin && begin + tile <= group.end;
}

/// Calls work(score, place) for a thread's share of the group's candidates, in the cells of its
/// warp. Places count from the begin of the group's first tile. `AtOnce` candidates of a thread are
/// loaded without waiting for work on others.
template <int AtOnce = 1, class Block, class Work>
TRUESTEP_BLOCK void over_candidates(const Block& block, int thread, const SelectArguments& a,
                                    const Group& group, const Work& work) {
    for (int cell = thread / warp_threads; cell < cells_of(group); cell += block.threads() / warp_threads) {
        const Index number = group.first_cell + cell;
        const auto size = static_cast<int>(a.inside[number]);
        const auto some = [&](int at, int count) {
            std::uint32_t keys[static_cast<std::size_t>(AtOnce)];
            int places[static_cast<std::size_t>(AtOnce)];
            TRUESTEP_UNROLL
            for (int i = 0; i < AtOnce; ++i) {
                keys[i] = i < count ? a.keys[number * cell_room + at + i * warp_threads] : 0U;
                places[i] = i < count ? a.places[number * cell_room + at + i * warp_threads] : 0;
            }
            TRUESTEP_UNROLL
            for (int i = 0; i < AtOnce; ++i)
                if (i < count)
                    work(keys[i], cell * static_cast<int>(tile) + places[i]);
        };
        int at = thread % warp_threads;
        for (; at + (AtOnce - 1) * warp_threads < size; at += AtOnce * warp_threads)
            some(at, AtOnce);
        if constexpr (AtOnce > 1)
            some(at, (size - at + warp_threads - 1) / warp_threads);
    }
}

/// The score of a coordinate.
TRUESTEP_BLOCK std::uint32_t key_at(const SelectArguments& a, Index at) {
    const float rest = a.e[at];
    const std::uint64_t word = word_of(a.current, at);
    return distributed::element::score(
        has_bit(word, at % word_bits) ? a.payload[before(a.current, at, word)] : rest);
}

/// The coordinate of a sweep that a thread handles at a step and a half of it, such that ballots
/// make words.
template <class Block>
TRUESTEP_BLOCK Index place_in_sweep(const Block& block, int thread, int step, int half) {
    const int warps = block.threads() / warp_threads;
    return (static_cast<Index>(step) * warps + thread / warp_threads) * word_bits + half * warp_threads +
           thread % warp_threads;
}

/// Loads a sweep's scores; no_key outside of the group.
template <class Block, class Keys>
TRUESTEP_BLOCK void load_keys(Block& block, const SelectArguments& a, const Group& group, Index begin,
                              Keys& keys) {
    block.phase([&](int thread) {
        TRUESTEP_UNROLL
        for (int number = 0; number < static_cast<int>(sweep) / block.threads(); ++number) {
            const Index at = begin + place_in_sweep(block, thread, number / 2, number % 2);
            keys(thread, number) = at >= group.begin && at < group.end ? key_at(a, at) : no_key;
        }
    });
}

/// Makes the next mask's words of a sweep: bit = predicate(key, coordinate). Calls take(first
/// thread, word) for each word.
template <class Block, class Keys, class Predicate, class Take>
TRUESTEP_BLOCK void write_words(Block& block, const SelectArguments& a, const Group& group, Index begin,
                                Keys& keys, const Predicate& predicate, const Take& take) {
    TRUESTEP_UNROLL
    for (int step = 0; step < static_cast<int>(sweep) / block.threads() / 2; ++step)
        block.ballot(
            [&](int thread, int half) {
                const std::uint32_t key = keys(thread, 2 * step + half);
                return key != no_key && predicate(key, begin + place_in_sweep(block, thread, step, half));
            },
            [&](int thread, std::uint64_t bits) {
                const Index at = begin + place_in_sweep(block, thread, step, 0);
                const std::uint64_t own = own_bits(at, group.begin, group.end);
                if (own != 0)
                    store_bits(block, a.next[at / word_bits], own, bits);
                take(thread, bits);
            });
}

/// Sets where each segment's search begins. One block a segment.
struct Prepare {
    using Arguments = SelectArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Segment& segment = a.segments[block.index()];
        Search& search = a.searches[block.index()];
        std::uint32_t* const bins = a.bins + block.index() * digit_bins;
        block.phase([&](int thread) {
            for (int bin = thread; bin < digit_bins; bin += block.threads())
                bins[bin] = 0;
            if (thread != 0)
                return;
            search.rank = segment.k;
            search.equal = 0;
            if (segment.kind == SegmentCode::nothing) {
                search.state = SearchState::whole;
                search.low = 0;
            } else if (search.hint == 0) {
                search.state = SearchState::everywhere;
                search.low = 0;
            } else {
                const std::uint32_t threshold = search.hint - 1;
                const std::uint32_t low = greatest(threshold, bracket_width / 2) - bracket_width / 2;
                search.state = SearchState::bracket;
                search.low = least(low, greatest_key - (bracket_width - 1));
            }
        });
    }
};

/// The one pass over memory. One block a group.
struct Bracket {
    using Arguments = SelectArguments;
    struct Shared {
        std::uint32_t above;
        std::uint32_t inside;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group group = a.groups[block.index()];
        if (a.searches[group.segment].state != SearchState::bracket)
            return;
        Index cell = group.first_cell;
        for (Index begin = first_tile(group); begin < group.end; begin += tile, ++cell)
            if (!a.looked_at || !is_whole(group, begin))
                one_tile(block, shared, a, group, begin, cell);
    }

  private:
    template <class Block>
    TRUESTEP_BLOCK static void one_tile(Block& block, Shared& shared, const SelectArguments& a,
                                        const Group& group, Index tile_begin, Index cell) {
        const std::uint32_t low = a.searches[group.segment].low;
        const std::uint32_t high = low + (bracket_width - 1);
        block.phase([&](int thread) {
            if (thread == 0)
                shared.above = shared.inside = 0;
        });
        typename Block::template PerSweep<std::uint32_t, sweep> keys(block);
        for (Index begin = tile_begin; begin < least(tile_begin + tile, group.end); begin += sweep) {
            load_keys(block, a, group, begin, keys);
            write_words(
                block, a, group, begin, keys, [&](std::uint32_t key, Index) { return key > high; },
                [&](int, std::uint64_t bits) {
                    if (bits != 0)
                        block.add(shared.above, static_cast<std::uint32_t>(bits_set(bits)));
                });
            block.phase([&](int thread) {
                TRUESTEP_UNROLL
                for (int number = 0; number < static_cast<int>(sweep) / block.threads(); ++number) {
                    const std::uint32_t key = keys(thread, number);
                    if (key < low || key > high)
                        continue;
                    const Index free = block.add(shared.inside, 1U);
                    if (free >= cell_room)
                        continue;
                    const Index at = begin + place_in_sweep(block, thread, number / 2, number % 2);
                    a.keys[cell * cell_room + free] = key;
                    a.places[cell * cell_room + free] = static_cast<std::uint16_t>(at - tile_begin);
                }
            });
        }
        block.phase([&](int thread) {
            if (thread != 0)
                return;
            a.above[cell] = shared.above;
            a.inside[cell] = shared.inside;
        });
    }
};

/// Decides whether the bracket held T. One block a segment.
struct Judge {
    using Arguments = SelectArguments;
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Segment& segment = a.segments[block.index()];
        Search& search = a.searches[block.index()];
        if (search.state != SearchState::bracket)
            return;
        const Group& last = a.groups[segment.last_part - 1];
        const Index end = last.first_cell + cells_of(last);
        typename Block::template PerThread<std::uint32_t> inside(block);
        typename Block::template PerThread<std::uint32_t> full(block); // cells without room for all
        // A segment has fewer than 2^32 coordinates.
        const std::uint32_t above = sum_of(block, shared, [&](int thread) {
            std::uint32_t mine = 0;
            inside[thread] = full[thread] = 0;
            for (Index cell = a.groups[segment.first_part].first_cell + thread; cell < end;
                 cell += block.threads()) {
                mine += a.above[cell];
                inside[thread] += a.inside[cell];
                full[thread] += a.inside[cell] > cell_room ? 1U : 0U;
            }
            return mine;
        });
        const std::uint32_t candidates = sum_of(block, shared, [&](int thread) { return inside[thread]; });
        const bool overflow = sum_of(block, shared, [&](int thread) { return full[thread]; }) != 0;
        block.phase([&](int thread) {
            if (thread != 0)
                return;
            const Index left = segment.k - Index{above};
            if (!overflow && left > 0 && left <= Index{candidates}) {
                search.state = SearchState::candidates;
                search.rank = left;
            } else {
                search.state = SearchState::everywhere;
                search.low = 0;
            }
        });
    }
};

/// Counts a digit of the remaining candidates for T. One block a group.
struct Digit {
    using Arguments = SelectArguments;
    struct Shared {
        std::uint32_t bins[digit_bins];
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group group = a.groups[block.index()];
        const SearchState state = a.searches[group.segment].state;
        if (state == SearchState::whole || (a.shift == first_shift && state != SearchState::everywhere))
            return;
        const std::uint32_t low = a.searches[group.segment].low;
        const std::uint32_t bins = a.shift == first_shift ? digit_bins : digit_bins / 2;
        block.phase([&](int thread) {
            for (int bin = thread; bin < digit_bins; bin += block.threads())
                shared.bins[bin] = 0;
        });
        // Subtracting `low` makes scores below it, and no_key, very large.
        const auto count = [&](std::uint32_t key) {
            const std::uint32_t bin = (key - low) >> a.shift;
            if (key >= low && bin < bins)
                block.add(shared.bins[bin], 1U);
        };
        if (state == SearchState::candidates) {
            block.phase([&](int thread) {
                over_candidates(block, thread, a, group, [&](std::uint32_t key, int) { count(key); });
            });
        } else {
            typename Block::template PerSweep<std::uint32_t, sweep> keys(block);
            for (Index begin = first_tile(group); begin < group.end; begin += sweep) {
                load_keys(block, a, group, begin, keys);
                block.phase([&](int thread) {
                    TRUESTEP_UNROLL
                    for (int number = 0; number < static_cast<int>(sweep) / block.threads(); ++number)
                        if (keys(thread, number) != no_key)
                            count(keys(thread, number));
                });
            }
        }
        block.phase([&](int thread) {
            for (int bin = thread; bin < digit_bins; bin += block.threads())
                if (shared.bins[bin] != 0)
                    block.add(a.bins[group.segment * digit_bins + bin], shared.bins[bin]);
        });
    }
};

/// Finds T's digit, from the top, and clears the bins. One block a segment.
struct Pick {
    using Arguments = SelectArguments;
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        Search& search = a.searches[block.index()];
        if (search.state == SearchState::whole ||
            (a.shift == first_shift && search.state != SearchState::everywhere))
            return;
        std::uint32_t* const bins = a.bins + block.index() * digit_bins;
        const int share = digit_bins / block.threads();
        typename Block::template PerSweep<std::uint32_t, digit_bins> counts(block);
        typename Block::template PerThread<Index> rank(block);
        // The first thread has the highest bins.
        const auto bin_of = [&](int thread, int i) { return digit_bins - 1 - (thread * share + i); };
        scan(
            block, shared,
            [&](int thread) {
                rank[thread] = search.rank;
                std::uint32_t mine = 0;
                TRUESTEP_UNROLL
                for (int i = 0; i < share; ++i) {
                    counts(thread, i) = bins[bin_of(thread, i)];
                    mine += counts(thread, i);
                }
                return mine;
            },
            [&](int thread, std::uint32_t higher, std::uint32_t) {
                Index left = rank[thread] - Index{higher};
                TRUESTEP_UNROLL
                for (int i = 0; i < share; ++i) {
                    const int bin = bin_of(thread, i);
                    const Index count = counts(thread, i);
                    bins[bin] = 0;
                    if (left > 0 && left <= count) { // true of one bin in all
                        search.low += static_cast<std::uint32_t>(bin) << a.shift;
                        search.rank = left;
                        if (a.shift == 0) {
                            search.equal = count;
                            search.hint = guess_from(search.low, search.last) + 1;
                            search.last = search.low + 1;
                        }
                    }
                    left -= count;
                }
            });
    }
};

/// Counts the scores that equal T in each group, if only some of them are taken. One block a group.
struct TieCount {
    using Arguments = SelectArguments;
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group group = a.groups[block.index()];
        const Search search = a.searches[group.segment];
        std::uint32_t ties = 0;
        if (search.state != SearchState::whole && search.rank < search.equal)
            ties = sum_of(block, shared, [&](int thread) {
                std::uint32_t mine = 0;
                if (search.state == SearchState::candidates) {
                    over_candidates<4>(block, thread, a, group, [&](std::uint32_t key, int) {
                        mine += key == search.low ? 1U : 0U;
                    });
                } else {
                    for (Index at = group.begin + thread; at < group.end; at += block.threads())
                        mine += key_at(a, at) == search.low ? 1U : 0U;
                }
                return mine;
            });
        block.phase([&](int thread) {
            if (thread == 0)
                a.ties[block.index()] = ties;
        });
    }
};

/// Sets the bits: all scores above T, and the first ones that equal it. One block a group.
struct Take {
    static constexpr int blocks_at_once = 6;
    using Arguments = SelectArguments;
    static constexpr Index group_words = most_group_tiles * tile_words;
    struct Shared {
        std::uint64_t equal[group_words]; ///< in the one group of a segment that takes a part of its ties
        Scan scan;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group group = a.groups[block.index()];
        const Search search = a.searches[group.segment];
        if (search.state == SearchState::whole)
            return;
        const std::uint32_t threshold = search.low;
        const Index ties = a.ties[block.index()];
        const Index room =
            search.rank == search.equal
                ? ties
                : greatest<Index>(0, search.rank - (a.tie_offset[block.index()] -
                                                    a.tie_offset[a.segments[group.segment].first_part]));
        const bool some = room > 0 && room < ties;
        const bool all = room >= ties;
        if (some)
            find_first_ties(block, shared, a, group, search, static_cast<std::uint32_t>(room));
        const auto taken = [&](std::uint32_t key, Index place) {
            return key > threshold ||
                   (key == threshold &&
                    (all || (some && has_bit(shared.equal[place / word_bits], place % word_bits))));
        };
        const Index first = first_tile(group);
        if (search.state == SearchState::candidates) {
            block.phase([&](int thread) {
                over_candidates<4>(block, thread, a, group, [&](std::uint32_t key, int place) {
                    if (taken(key, place))
                        block.set_bits(a.next[(first + place) / word_bits],
                                       std::uint64_t{1} << static_cast<unsigned>(place % word_bits));
                });
            });
            return;
        }
        typename Block::template PerSweep<std::uint32_t, sweep> keys(block);
        for (Index begin = first; begin < group.end; begin += sweep) {
            load_keys(block, a, group, begin, keys);
            write_words(
                block, a, group, begin, keys,
                [&](std::uint32_t key, Index at) { return taken(key, at - first); },
                [](int, std::uint64_t) {});
        }
    }

  private:
    /// shared.equal = the first `room` coordinates of the group whose score is T.
    template <class Block>
    TRUESTEP_BLOCK static void find_first_ties(Block& block, Shared& shared, const Arguments& a,
                                               const Group& group, const Search& search,
                                               std::uint32_t room) {
        const Index first = first_tile(group);
        block.phase([&](int thread) {
            for (Index i = thread; i < group_words; i += block.threads())
                shared.equal[i] = 0;
        });
        const auto mark = [&](Index place) {
            block.set_bits(shared.equal[place / word_bits],
                           std::uint64_t{1} << static_cast<unsigned>(place % word_bits));
        };
        block.phase([&](int thread) {
            if (search.state == SearchState::candidates) {
                over_candidates<4>(block, thread, a, group, [&](std::uint32_t key, int place) {
                    if (key == search.low)
                        mark(place);
                });
            } else {
                for (Index at = group.begin + thread; at < group.end; at += block.threads())
                    if (key_at(a, at) == search.low)
                        mark(at - first);
            }
        });
        const Index share = group_words / block.threads();
        scan(
            block, shared.scan,
            [&](int thread) {
                std::uint32_t mine = 0;
                for (Index i = 0; i < share; ++i)
                    mine += static_cast<std::uint32_t>(bits_set(shared.equal[thread * share + i]));
                return mine;
            },
            [&](int thread, std::uint32_t before, std::uint32_t) {
                std::uint32_t left = room > before ? room - before : 0;
                for (Index i = 0; i < share; ++i) {
                    std::uint64_t& word = shared.equal[thread * share + i];
                    std::uint64_t kept = 0;
                    for (std::uint64_t rest = word; rest != 0 && left > 0; rest &= rest - 1, --left)
                        kept |= rest & (~rest + 1);
                    word = kept;
                }
            });
    }
};

} // namespace truestep::gpu::scape

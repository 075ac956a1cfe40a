// The top k of a segment, without sorting it (section 5's total order: larger score first, then the lower
// index).
//
// Let T be the k-th largest score. All coordinates above T are selected, and of those that equal it
// the first few. A bracket around T needs one pass over memory: coordinates above the bracket are
// selected at once, those inside are put aside, and T is searched for among them. Any bracket that
// holds T gives the same bits. If the guess failed, T is found by counting, digit by digit, for any
// data.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <truestep/distributed/kernels.hpp>
#include <truestep/problem/tunable.hpp>

#include "scalar.hpp"
#include "table.hpp"

namespace truestep::distributed::host {

namespace {

constexpr Index word_bits = Mask::word_bits;

// Speed only; any values give the same bits.
/// Its scores are copied into the cache and read repeatedly. Larger ones touch at least three
/// words.
constexpr Index small_segment = problem::tunable<Index>("small_segment");
/// The scores of a block stay in the nearest cache.
constexpr Index block_words = problem::tunable<Index>("block_words");
constexpr Score hint_reach = Score{1} << 18; ///< a 32nd of an octave... of the last threshold, up and down
/// A sample costs almost nothing compared with the pass.
constexpr Index large_segment = problem::tunable<Index>("large_segment");

struct Bracket {
    Score low = 0;
    Score high = greatest_score;
};

constexpr Index most_bins = 4096;

/// Memory that a thread keeps from one segment to the next. It is not initialized: parts without
/// candidates take no memory.
struct Scratch {
    CandidateRoom room;
    CandidateRoom bins; ///< of take_any()

    void make_room(Index wanted) { room.make(wanted); }
    /// Zeros, for four counts each.
    std::array<Index, 4>* make_bins(std::size_t count) {
        bins.make((most_bins + 1) * 4); // a candidate has as many bytes as a count
        auto* const counts = reinterpret_cast<std::array<Index, 4>*>(bins.scores());
        std::fill_n(counts, count, std::array<Index, 4>{});
        return counts;
    }
};

Scratch& scratch() {
    thread_local Scratch memory;
    return memory;
}

std::uint64_t lowest_bits(std::uint64_t bits, Index count) {
    std::uint64_t result = 0;
    for (; count > 0; --count) {
        result |= bits & (~bits + 1);
        bits &= bits - 1;
    }
    return result;
}

/// The `rank`-th largest (from 1) of scores between low and high, at least `rank` of which exist.
Score bisected(const Table& kernels, const Score* scores, Index size, Index rank, Bracket bracket) {
    while (bracket.low < bracket.high) {
        const Score middle = bracket.low + (bracket.high - bracket.low) / 2 + 1;
        if (kernels.count_at_least(scores, size, middle) >= rank)
            bracket.low = middle;
        else
            bracket.high = middle - 1;
    }
    return bracket.low;
}

/// The same. Many scores are counted in bins first, so that only those in the right bin are read
/// repeatedly.
Score ranked(const Table& kernels, const Score* scores, Index size, Index rank, Bracket bracket) {
    constexpr Index few = problem::tunable<Index>("few_scores");
    constexpr Score bins = 1024; // and one for the scores below, one for those above
    if (size <= few || bracket.high - bracket.low < bins)
        return bisected(kernels, scores, size, rank, bracket);
    const unsigned shift =
        static_cast<unsigned>(std::bit_width(static_cast<std::uint32_t>(bracket.high - bracket.low))) - 10;
    std::array<std::array<std::uint32_t, 2>, bins + 2> counts{}; // two, so that equal ones need not wait
    for (Index i = 0; i < size; ++i) {
        const Score from_low = scores[i] - bracket.low;
        const Score bin = from_low < 0 ? 0 : std::min(from_low >> shift, bins) + 1;
        ++counts[static_cast<std::size_t>(bin)][static_cast<std::size_t>(i & 1)];
    }
    std::size_t bin = counts.size() - 1;
    const auto in_bin = [&] { return Index{counts[bin][0]} + Index{counts[bin][1]}; };
    Index above = 0;
    for (; above + in_bin() < rank; --bin)
        above += in_bin();
    const Score low = bracket.low + (static_cast<Score>(bin - 1) << shift);
    const Bracket here{low, std::min(bracket.high, low + static_cast<Score>((1U << shift) - 1))};
    if (in_bin() > few)
        return bisected(kernels, scores, size, rank, here);
    std::array<Score, few + 1> inside; // NOLINT: written before it is read
    Index count = 0;
    for (Index i = 0; i < size; ++i) {
        inside[static_cast<std::size_t>(count)] = scores[i];
        count += scores[i] >= here.low && scores[i] <= here.high ? 1 : 0;
    }
    return bisected(kernels, inside.data(), count, rank - above, here);
}

/// One segment's selection. Its words are those that the segment touches; bits of other coordinates
/// in its first and last word do not belong to it.
class Selection {
  public:
    Selection(Index begin, Index end, Index k, const float* e, const Mask& current, const float* payload,
              MaskWords next)
        : begin_(begin), end_(end), k_(k), e_(e), current_(current), payload_(payload),
          first_word_(begin / word_bits), last_word_((end + word_bits - 1) / word_bits), next_(next) {}

    [[nodiscard]] Index size() const { return end_ - begin_; }
    /// How many candidates a pass may put aside.
    [[nodiscard]] Index capacity() const {
        return size() / 16 + problem::tunable<Index>("spare_candidates");
    }

    Score take_small() {
        std::array<Score, small_segment + 2 * word_bits> scores; // NOLINT: written before it is read
        Index payload_offset = current_.offset(first_word_ * word_bits);
        const Index words = last_word_ - first_word_;
        score_range(first_word_, last_word_, payload_offset, scores.data());
        const Score threshold = ranked(kernels_, scores.data(), words * word_bits, k_, {});
        Index ties = k_ - (threshold == greatest_score
                               ? 0
                               : kernels_.count_at_least(scores.data(), words * word_bits, threshold + 1));
        for (Index word = 0; word < words; ++word)
            take_word(first_word_ + word, scores.data() + word * word_bits, threshold, ties);
        return threshold;
    }

    /// True if T is inside; then the bits are set.
    bool take_bracket(const Bracket& bracket, Score& threshold);
    /// The same after the local pass has examined all words that belong wholly to the segment.
    bool take_watched(std::span<const Watch* const> watches, const Bracket& bracket, Score& threshold);
    /// The words that belong wholly to the segment; the range may be empty.
    [[nodiscard]] Index body() const {
        return own_bits(first_word_) == ~std::uint64_t{0} ? first_word_ : first_word_ + 1;
    }
    [[nodiscard]] Index body_end() const {
        return own_bits(last_word_ - 1) == ~std::uint64_t{0} ? last_word_ : last_word_ - 1;
    }
    [[nodiscard]] Index first_word() const { return first_word_; }
    void clear() {
        for (Index word = first_word_; word < last_word_; ++word)
            *next_.at(word) &= ~own_bits(word);
    }

    /// The expected bracket of T, from a sample.
    [[nodiscard]] Bracket sample() const;

    Score take_any();

  private:
    /// The segment's coordinates in a word.
    [[nodiscard]] std::uint64_t own_bits(Index word) const {
        std::uint64_t bits = ~std::uint64_t{0};
        if (word * word_bits < begin_)
            bits &= ~std::uint64_t{0} << static_cast<unsigned>(begin_ - word * word_bits);
        if (end_ < (word + 1) * word_bits)
            bits &= ~std::uint64_t{0} >> static_cast<unsigned>((word + 1) * word_bits - end_);
        return bits;
    }

    [[nodiscard]] CandidateSource source(Index word, Index payload_offset) const {
        return {e_ + word * word_bits, current_.words() + word, payload_ + payload_offset};
    }

    /// The scores of a word that only partly belongs to the segment; the other coordinates get
    /// no_score.
    void score_part(Index word, Index payload_offset, Score* scores) const {
        const std::uint64_t current = current_.words()[word];
        const std::uint64_t own = own_bits(word);
        const float* packed = payload_ + payload_offset;
        for (Index i = 0; i < word_bits; ++i) {
            const float* const here = has_bit(current, i) ? packed++ : e_ + word * word_bits + i;
            scores[i] = has_bit(own, i) ? score_of(*here) : no_score;
        }
    }

    /// The scores of words; advances the offset past them.
    void score_range(Index word, Index last, Index& payload_offset, Score* scores) const {
        while (word < last) {
            Index words = 1;
            if (own_bits(word) != ~std::uint64_t{0}) {
                score_part(word, payload_offset, scores);
            } else {
                words = own_bits(last - 1) == ~std::uint64_t{0} ? last - word : last - 1 - word;
                kernels_.score_words(source(word, payload_offset), words, scores);
            }
            payload_offset += kernels_.count_words(current_.words() + word, words);
            scores += words * word_bits;
            word += words;
        }
    }

    /// Calls action(first word, words, their scores) for the whole segment, in blocks that stay in
    /// the cache.
    template <class Action>
    void for_blocks(const Action& action) const {
        std::array<Score, block_words * word_bits> scores; // NOLINT: written before it is read
        Index payload_offset = current_.offset(first_word_ * word_bits);
        for (Index word = first_word_; word < last_word_; word += block_words) {
            const Index last = std::min(last_word_, word + block_words);
            score_range(word, last, payload_offset, scores.data());
            action(word, last - word, scores.data());
        }
    }

    void take_word(Index word, const Score* scores, Score threshold, Index& ties) {
        std::uint64_t above = 0;
        std::uint64_t equal = 0;
        kernels_.between(scores, threshold, threshold, above, equal);
        const Index equals = std::popcount(equal);
        *next_.at(word) |= above | (equals <= ties ? equal : lowest_bits(equal, ties));
        ties -= std::min(ties, equals);
    }

    void take_at(Score threshold, Index ties) {
        for_blocks([&](Index word, Index words, const Score* scores) {
            for (Index i = 0; i < words; ++i)
                take_word(word + i, scores + i * word_bits, threshold, ties);
        });
    }

    /// How many scores are at least `threshold`.
    [[nodiscard]] Index count(Score threshold) const {
        Index total = 0;
        for_blocks([&](Index, Index words, const Score* scores) {
            total += kernels_.count_at_least(scores, words * word_bits, threshold);
        });
        return total;
    }

    /// Takes a word that also has other coordinates: sets and counts those above the bracket.
    Index take_part(Index word, const Bracket& bracket, Candidates& candidates);
    /// Finishes with all candidates in the bracket and the number of coordinates above it.
    bool take_candidates(const Candidates& candidates, Index above, const Bracket& bracket,
                         Score& threshold);

    const Table& kernels_ = table();
    Index begin_;
    Index end_;
    Index k_;
    const float* e_;
    const Mask& current_;
    const float* payload_;
    Index first_word_;
    Index last_word_;
    MaskWords next_;
};

bool Selection::take_bracket(const Bracket& bracket, Score& threshold) {
    if (bracket.low == bracket.high) { // many equal scores, perhaps all: none needs to be put aside
        const Index above = bracket.high == greatest_score ? 0 : count(bracket.high + 1);
        if (above >= k_ || count(bracket.low) < k_)
            return false;
        take_at(bracket.low, k_ - above);
        threshold = bracket.low;
        return true;
    }
    if (last_word_ - first_word_ > Index{1} << 25) // positions have 32 bits
        return false;

    Scratch& memory = scratch();
    memory.make_room(capacity() + 2 * word_bits);
    Candidates candidates{memory.room.scores(), memory.room.positions(), 0, capacity()};

    Index above = 0;
    if (body() > first_word_)
        above += take_part(first_word_, bracket, candidates);
    above += kernels_.bracket(source(body(), current_.offset(body() * word_bits)), body_end() - body(),
                              static_cast<std::uint32_t>((body() - first_word_) * word_bits), bracket.low,
                              bracket.high, next_.at(body()), candidates);
    if (body_end() < last_word_ && candidates.count <= candidates.capacity)
        above += take_part(last_word_ - 1, bracket, candidates);
    return take_candidates(candidates, above, bracket, threshold);
}

bool Selection::take_watched(std::span<const Watch* const> watches, const Bracket& bracket,
                             Score& threshold) {
    Index above = 0;
    Index wanted = 2 * word_bits;
    for (const Watch* watch : watches) {
        if (watch->candidates.count > watch->candidates.capacity) {
            clear();
            return false;
        }
        above += watch->above;
        wanted += watch->candidates.count;
    }
    if (watches.size() == 1 && body() == first_word_ && body_end() == last_word_)
        return take_candidates(watches.front()->candidates, above, bracket, threshold);
    Scratch& memory = scratch();
    memory.make_room(std::max(wanted, capacity()) + 2 * word_bits); // as another pass would
    Candidates candidates{memory.room.scores(), memory.room.positions(), 0, wanted};
    if (body() > first_word_)
        above += take_part(first_word_, bracket, candidates);
    for (const Watch* watch : watches) {
        const Candidates& found = watch->candidates;
        std::copy_n(found.scores, found.count, candidates.scores + candidates.count);
        std::copy_n(found.positions, found.count, candidates.positions + candidates.count);
        candidates.count += found.count;
    }
    if (body_end() < last_word_)
        above += take_part(last_word_ - 1, bracket, candidates);
    return take_candidates(candidates, above, bracket, threshold);
}

Index Selection::take_part(Index word, const Bracket& bracket, Candidates& candidates) {
    std::array<Score, word_bits> scores; // NOLINT: written before it is read
    score_part(word, current_.offset(word * word_bits), scores.data());
    std::uint64_t above = 0;
    std::uint64_t inside = 0;
    kernels_.between(scores.data(), bracket.low, bracket.high, above, inside);
    *next_.at(word) |= above;
    for (; inside != 0; inside &= inside - 1) {
        const int bit = std::countr_zero(inside);
        candidates.scores[candidates.count] = scores[static_cast<std::size_t>(bit)];
        candidates.positions[candidates.count] =
            static_cast<std::uint32_t>((word - first_word_) * word_bits + bit);
        ++candidates.count;
    }
    return std::popcount(above);
}

bool Selection::take_candidates(const Candidates& candidates, Index above, const Bracket& bracket,
                                Score& threshold) {
    if (candidates.count > candidates.capacity || above >= k_ || above + candidates.count < k_) {
        clear();
        return false;
    }
    threshold = ranked(kernels_, candidates.scores, candidates.count, k_ - above, bracket);
    Index ties = k_ - above -
                 (threshold == greatest_score
                      ? 0
                      : kernels_.count_at_least(candidates.scores, candidates.count, threshold + 1));
    std::uint64_t* const words = next_.at(first_word_);
    for (Index i = 0; i < candidates.count; ++i) {
        const Score score = candidates.scores[i];
        const std::uint32_t position = candidates.positions[i];
        const bool tie = score == threshold && ties > 0;
        ties -= tie ? 1 : 0;
        words[position / 64] |= static_cast<std::uint64_t>(score > threshold || tie) << (position % 64);
    }
    return true;
}

Bracket Selection::sample() const {
    // One coordinate at random from each of equally long pieces, the same at every call. They are
    // far apart, so requesting them together overlaps their latencies. A large segment has more,
    // because coordinates between the guesses are written to memory.
    constexpr Index together = problem::tunable<Index>("samples_together");
    constexpr Index least = problem::tunable<Index>("least_samples");
    constexpr Index most = problem::tunable<Index>("most_samples");
    const Index samples = std::clamp<Index>(size() / 64, least, std::clamp(size() / 256, together, most));
    const Index piece = size() / samples;
    Scratch& memory = scratch();
    memory.make_room(std::max(samples, capacity() + 2 * word_bits)); // of the candidates, later
    Score* const scores = memory.room.scores();
    // Where the payload has the coordinate, counting up to it would dominate the time; a value from
    // about there suffices.
    const Index packed_begin = current_.offset(begin_);
    const Index packed = current_.offset(end_) - packed_begin;
    std::uint64_t state = 0x9e37'79b9'7f4a'7c15U;
    for (Index first = 0; first < samples; first += together) {
        const Index last = std::min(samples, first + together);
        std::array<Index, together> places; // NOLINT: written before it is read
        for (Index i = first; i < last; ++i) {
            state = state * 0x5851'f42d'4c95'7f2dU + 0x1405'7b7e'f767'814fU;
            const std::uint64_t within = (state >> 40U) * static_cast<std::uint64_t>(piece) >> 24U;
            const Index place = begin_ + i * piece + static_cast<Index>(within);
            places[static_cast<std::size_t>(i - first)] = place;
            __builtin_prefetch(e_ + place);
            __builtin_prefetch(current_.words() + place / word_bits);
        }
        for (Index i = first; i < last; ++i) {
            const Index place = places[static_cast<std::size_t>(i - first)];
            const float* const value =
                current_.test(place) ? payload_ + packed_begin + packed * i / samples : e_ + place;
            scores[i] = score_of(*value);
        }
    }
    // Three standard deviations of the number of samples above T, to each side.
    const double share = static_cast<double>(k_) / static_cast<double>(size());
    const double rank = share * static_cast<double>(samples);
    const double reach = 3.0 * std::sqrt(rank * (1.0 - share)) + 3.0;
    const Index lowest = static_cast<Index>(rank + reach);
    const Index highest = static_cast<Index>(rank - reach);
    Bracket bracket;
    if (lowest < samples)
        bracket.low = ranked(kernels_, scores, samples, lowest + 1, {});
    if (highest >= 1)
        bracket.high = ranked(kernels_, scores, samples, highest, {});
    return bracket;
}

Score Selection::take_any() {
    constexpr std::array<unsigned, 3> shifts{19, 7, 0}; // digits of 12, 12 and 7 bits
    Bracket bracket;
    Index rank = k_;
    for (const unsigned shift : shifts) {
        // Four tables, so that equal scores in sequence do not wait for each other. Scores outside
        // of the bracket go to the bin behind the last.
        const std::size_t bins = (static_cast<std::size_t>(bracket.high - bracket.low) + 1) >> shift;
        auto* const counts = scratch().make_bins(bins + 1);
        for_blocks([&](Index, Index words, const Score* scores) {
            for (Index i = 0; i < words * word_bits; i += 4)
                for (std::size_t lane = 0; lane < 4; ++lane) {
                    const auto score = static_cast<std::uint32_t>(scores[i + static_cast<Index>(lane)]);
                    const std::uint32_t bin = (score - static_cast<std::uint32_t>(bracket.low)) >> shift;
                    ++counts[std::min<std::size_t>(bin, bins)][lane];
                }
        });
        std::size_t bin = bins;
        Index inside = 0;
        for (;;) {
            --bin;
            inside = counts[bin][0] + counts[bin][1] + counts[bin][2] + counts[bin][3];
            if (inside >= rank)
                break;
            rank -= inside;
        }
        bracket.low += static_cast<Score>(bin << shift);
        bracket.high = bracket.low + static_cast<Score>((std::uint32_t{1} << shift) - 1);
        Score threshold = 0;
        if (shift != 0 && inside <= size() / 16 && take_bracket(bracket, threshold))
            return threshold;
    }
    take_at(bracket.low, rank);
    return bracket.low;
}

Bracket around(std::uint32_t threshold, Score reach = hint_reach) {
    const Score middle = static_cast<Score>(threshold & 0x7fff'ffffU);
    return {std::max(middle, reach) - reach, std::min(middle, greatest_score - reach) + reach};
}

Bracket around(const Guess& guess) {
    return around(guess.threshold, static_cast<Score>(guess.reach));
}

void set_range(MaskWords next, Index begin, Index end) {
    for (Index word = begin / word_bits; word * word_bits < end; ++word) {
        std::uint64_t bits = ~std::uint64_t{0};
        if (word * word_bits < begin)
            bits <<= static_cast<unsigned>(begin - word * word_bits);
        if (end < (word + 1) * word_bits)
            bits &= ~std::uint64_t{0} >> static_cast<unsigned>((word + 1) * word_bits - end);
        *next.at(word) |= bits;
    }
}

// How far a threshold is searched for from the last one, in steps of its bits: 2^23 are an octave.
constexpr Score least_reach = Score{1} << 13;
constexpr Score greatest_reach = hint_reach;

} // namespace

void Selector::select(Index begin, Index end, Index k, const float* e, const Mask& current,
                      const float* payload, MaskWords next, std::uint32_t& threshold) {
    if (k >= end - begin) {
        set_range(next, begin, end);
        return;
    }
    if (k <= 0)
        return;
    Selection selection(begin, end, k, e, current, payload, next);
    Score found = 0;
    // The last threshold may have moved too far, which wastes a pass; a sample is never outdated,
    // but costs time.
    const bool hinted = threshold != 0 && selection.size() < large_segment;
    if (selection.size() <= small_segment)
        found = selection.take_small();
    else if (!(hinted && selection.take_bracket(around(threshold), found)) &&
             !selection.take_bracket(selection.sample(), found))
        found = selection.take_any();
    threshold = static_cast<std::uint32_t>(found);
}

void Guess::learn(std::uint32_t found) {
    const auto score = static_cast<Score>(found);
    const Score off = std::abs(score - static_cast<Score>(threshold));
    const Score narrower = static_cast<Score>(reach) / 4 * 3;
    const Score wide = off < greatest_reach / 3 ? std::max(3 * off, narrower) : greatest_reach;
    reach =
        static_cast<std::uint32_t>(last == 0 ? hint_reach : std::clamp(wide, least_reach, greatest_reach));
    // Coordinates that were left out add up, so a threshold drifts: expect the same drift again,
    // unless it jumped.
    constexpr Score jump = Score{1} << 22;
    const Score moved = last == 0 ? 0 : score - static_cast<Score>(last);
    const bool goes_on =
        found != 0 && std::abs(moved) < jump && score > jump && score < greatest_score - jump;
    threshold = goes_on ? static_cast<std::uint32_t>(score + moved) : found;
    last = found;
}

bool Guess::is_good() const {
    return threshold != 0 && static_cast<Score>(reach) < greatest_reach;
}

void SelectionAhead::clear_words(const SegmentRequest& segment, bool watched) {
    const Index first = segment.begin / word_bits;
    const Index last = (segment.end + word_bits - 1) / word_bits;
    if (!watched) {
        std::fill(next_.at(first), next_.at(last), 0);
        return;
    }
    if (segment.begin % word_bits != 0) // the selection writes all bits of the other words
        *next_.at(first) = 0;
    if (segment.end % word_bits != 0)
        *next_.at(last - 1) = 0;
}

void SelectionAhead::begin(std::span<const SegmentRequest> segments, MaskWords next,
                           std::span<const Index> cuts) {
    segments_.assign(segments.begin(), segments.end());
    watched_.assign(segments.size(), false);
    next_ = next;
    missed_ = 0;
    forget_watches();
    if (!cuts.empty())
        parts_.resize(cuts.size() - 1);
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Index size = segments[i].end - segments[i].begin;
        watched_[i] = segments[i].guess.threshold != 0 && segments[i].k < size && segments[i].k > 0 &&
                      size > small_segment && size < (Index{1} << 31);
        clear_words(segments[i], watched_[i]);
        if (watched_[i])
            watch(i, cuts);
    }
    // Room for the candidates of a good guess, for all watches of a part one after the other.
    for (Part& part : parts_) {
        Index room = 0;
        for (Watch& watch : part.watches) {
            watch.candidates.capacity =
                (watch.end - watch.begin) / 64 + problem::tunable<Index>("spare_candidates");
            room += watch.candidates.capacity + 2 * word_bits;
        }
        part.room.make(room);
        Index at = 0;
        for (Watch& watch : part.watches) {
            watch.candidates.scores = part.room.scores() + at;
            watch.candidates.positions = part.room.positions() + at;
            at += watch.candidates.capacity + 2 * word_bits;
        }
    }
}

void SelectionAhead::forget_watches() {
    for (Part& part : parts_) {
        part.watches.clear();
        part.segments.clear();
    }
}

/// Watches whole words of the segment, split at the cuts of the pass.
void SelectionAhead::watch(std::size_t segment, std::span<const Index> cuts) {
    const SegmentRequest& wanted = segments_[segment];
    const Index first = (wanted.begin + word_bits - 1) / word_bits * word_bits;
    const Index last = wanted.end / word_bits * word_bits;
    const Bracket bracket = around(wanted.guess);
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
        Watch watch;
        watch.begin = std::max(first, cuts[part]);
        watch.end = std::min(last, cuts[part + 1]);
        if (watch.begin >= watch.end)
            continue;
        watch.low = bracket.low;
        watch.high = bracket.high;
        watch.position = static_cast<std::uint32_t>(watch.begin - wanted.begin / word_bits * word_bits);
        watch.next = next_.at(watch.begin / word_bits);
        parts_[part].watches.push_back(watch);
        parts_[part].segments.push_back(segment);
    }
}

std::uint32_t SelectionAhead::take(std::size_t segment, const float* e, const Mask& current,
                                   const float* payload) {
    const SegmentRequest& wanted = segments_[segment];
    if (watched_[segment]) {
        Selection selection(wanted.begin, wanted.end, wanted.k, e, current, payload, next_);
        found_.clear();
        found_.reserve(parts_.size());
        for (const Part& part : parts_) {
            const auto at = std::lower_bound(part.segments.begin(), part.segments.end(), segment);
            if (at != part.segments.end() && *at == segment)
                found_.push_back(&part.watches[static_cast<std::size_t>(at - part.segments.begin())]);
        }
        Score found = 0;
        if (selection.take_watched(found_, around(wanted.guess), found))
            return static_cast<std::uint32_t>(found);
        ++missed_;
        // The findings of the watches are no longer needed: free them, so that memory for both
        // never exists at once, nor between steps.
        if (std::find(watched_.begin() + static_cast<std::ptrdiff_t>(segment) + 1, watched_.end(), true) ==
            watched_.end()) {
            forget_watches();
            for (Part& part : parts_)
                part.room.give_back();
        }
    }
    std::uint32_t threshold = 0;
    Selector::select(wanted.begin, wanted.end, wanted.k, e, current, payload, next_, threshold);
    if (wanted.end - wanted.begin >= large_segment)
        scratch().room.give_back();
    return threshold;
}

} // namespace truestep::distributed::host

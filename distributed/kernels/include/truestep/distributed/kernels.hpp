#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <truestep/distributed/candidate_room.hpp>
#include <truestep/distributed/element.hpp>
#include <truestep/distributed/mask.hpp>
#include <truestep/problem/problem.hpp>

// The passes over memory of one rank, on the host. Each works on coordinates [begin, end), both multiples
// of Mask::chunk or the model's size, or on [begin, end) of a packed vector, so that threads can share it;
// how it is shared changes no bit.

namespace truestep::distributed::host {

/// The instruction sets that the passes are written for. All give the same bits; the best that the machine
/// has is in use.
enum class Variant : std::uint8_t { plain, avx2, avx512 };
[[nodiscard]] std::string_view name(Variant variant);
/// From the plainest to the best.
[[nodiscard]] std::vector<Variant> supported_variants();
[[nodiscard]] Variant variant();
/// For tests and benchmarks, of the whole process. Throws std::invalid_argument where the machine has it
/// not.
void use_variant(Variant variant);

/// Section 4.1: the first coordinate whose gradient is refused, or `end`.
[[nodiscard]] Index first_unacceptable(const float* g, Index begin, Index end);

/// As section 5 compares: magnitudes as integers. All are below 2^31, so that signed comparisons, which
/// every instruction set has, order them too, and -1 can stand for "no coordinate".
using Score = std::int32_t;
constexpr Score greatest_score = 0x7fff'ffff;
constexpr Score no_score = -1;

/// Coordinates whose score lies in the bracket, in ascending order.
struct Candidates {
    Score* scores = nullptr;
    std::uint32_t* positions = nullptr; ///< from the first coordinate of the segment's first word
    Index count = 0;
    Index capacity = 0; ///< both arrays have room for a word more
};

/// Whole words of a segment in which the local pass looks, while it has c, for those that come first in the
/// selection: a bracket around where its threshold should be.
struct Watch {
    Index begin = 0; ///< multiples of Mask::word_bits
    Index end = 0;
    Score low = 0;
    Score high = 0;
    std::uint32_t position = 0;    ///< of `begin`, from the first coordinate of the segment's first word
    std::uint64_t* next = nullptr; ///< these words of the coming mask: is given those above the bracket
    Index above = 0;               ///< how many these are
    Candidates candidates;         ///< those in the bracket; more than there is room for: not all of them
};

/// What the local pass works on.
struct LocalPass {
    const float* g = nullptr;
    const float* e = nullptr;
    float* kept = nullptr; ///< where the residual goes: e itself, or g's place
    const Mask& last;
    const float* m = nullptr; ///< packed on `last`
    const Mask& current;
    float* payload = nullptr;   ///< packed on `current`
    std::span<Watch> watches{}; ///< ascending, all of them within [begin, end)
    bool checks = false;        ///< section 4.1, of g
};

/// Sections 4.2, 4.4 and 4.6 in one pass over memory: c from m, g and e; on `current` c goes into the
/// payload and what is kept becomes +0; elsewhere it becomes c. If it checks and a gradient is refused, the
/// first such coordinate, where g still stands, and not all of the rest has been done; else `end`.
[[nodiscard]] Index local_pass(const Scalars& scalars, Index begin, Index end, const LocalPass& pass);

/// The same in e's place, and nothing else.
void local_pass(const Scalars& scalars, Index begin, Index end, const float* g, float* e, const Mask& last,
                const float* m, const Mask& current, float* payload);

/// The same step where the mask was not yet known in the local pass (the bootstrap): moves e on `current`
/// into `payload` and clears it.
void extract(Index begin, Index end, float* e, const Mask& current, float* payload);

/// m, packed on `last`, packed on `current`: +0 where `last` does not have the coordinate. Both begin at
/// the first value of [begin, end), and do not overlap.
void repack(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
            float* m_on_current);

/// One part more of a gradient that comes in parts.
void add(Index begin, Index end, const float* g, float* sum);

/// What local_pass() would put into `payload` of any [begin, end), and nothing else changes. Where there is
/// a `sum` of earlier parts, g is the last one.
void gather(const Scalars& scalars, Index begin, Index end, const float* sum, const float* g,
            const float* e, const Mask& last, const float* m, const Mask& current, float* payload);

/// (((c_0 + c_1) + ...) / P on [begin, end); part r begins at parts + r*stride.
void fold(const Scalars& scalars, int workers, Index begin, Index end, const float* parts, Index stride,
          float* mean);

/// Section 21, of packed values: c in bf16, in place, and in the bits that travel; `lost` is what that
/// took.
void to_bf16(Index begin, Index end, float* c, std::uint16_t* sent, float* lost);

/// fold() of what has travelled so.
void fold_bf16(const Scalars& scalars, int workers, Index begin, Index end, const std::uint16_t* parts,
               Index stride, float* mean);

/// The same of e5m2, whose scale goes with it.
void to_e5m2(const element::E5m2Scale& scale, Index begin, Index end, float* c, std::uint8_t* sent,
             float* lost);
void fold_e5m2(const Scalars& scalars, const element::E5m2Scale& scale, int workers, Index begin, Index end,
               const std::uint8_t* parts, Index stride, float* mean);
/// The greatest score of packed values, 0 of none.
[[nodiscard]] std::uint32_t greatest_score_of(Index begin, Index end, const float* c);

/// Packed values to the places in `to` that `mask` has; the reverse of extract(). They begin at the first
/// of [begin, end).
void spread(Index begin, Index end, const float* packed, const Mask& mask, float* to);
/// The same, added to what is there.
void add_to(Index begin, Index end, const float* packed, const Mask& mask, float* to);

/// ghat on a packed [begin, end).
void reconstruct(const Scalars& scalars, Index begin, Index end, const float* M, const float* m,
                 float* ghat);

constexpr Index norm_block = 4096;
/// The sums of squares of the norm's blocks first..last-1 of a packed vector of `size` values (section 5).
void square_sums(Index first, Index last, const float* ghat, Index size, double* sums);

/// ghat = ghat*s, and M from it; the three are different vectors.
void clip(const Scalars& scalars, float s, Index begin, Index end, const float* m, float* ghat, float* M);

/// u on a packed [begin, end); may be written over m or ghat.
void directions(problem::BiasCorrection correction, const Scalars& scalars, Index begin, Index end,
                const float* M, const float* m, const float* ghat, float* u);

/// The decay everywhere and the update on `current`, whose u begin at the first of [begin, end). False if a
/// parameter has turned non-finite. Without decay only the selected parameters are touched.
[[nodiscard]] bool update(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current,
                          const float* u);

/// Section 3 on vectors of full length: M goes to m's place, w decays and is updated. False if a parameter
/// has turned non-finite.
[[nodiscard]] bool dense(problem::BiasCorrection correction, const Scalars& scalars, Index size,
                         const float* g, float* m, float* w);

/// True if none is a NaN or an infinity.
[[nodiscard]] bool finite(const float* values, Index size);

/// The bits that two masks' words both have.
[[nodiscard]] Index count_common(const std::uint64_t* a, const std::uint64_t* b, Index count);

// The codes in which the bits [begin, end) of a mask travel; there is one at least. To decode: false if the
// code is none of k there, and any may be set then. In words that have others, too, they are 0 before.

/// ceil(n/8) bytes.
void encode_bitmap(const std::uint64_t* words, Index begin, Index end, std::uint8_t* code);
[[nodiscard]] bool decode_bitmap(const std::uint8_t* code, Index begin, Index end, Index k,
                                 std::uint64_t* words);

/// Coordinates that share a count in the code of positions. Not 256: a count of 0 to 255 fits a byte, and a
/// full block needs no escape.
constexpr Index position_block = 255;
/// A count for each block, and the positions in their blocks; these are written up to `positions_end` at
/// most, and as many are read as the counts say, if that is k.
void encode_positions(const std::uint64_t* words, Index begin, Index end, std::uint8_t* counts,
                      std::uint8_t* positions, const std::uint8_t* positions_end);
[[nodiscard]] bool decode_positions(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                                    Index end, Index k, std::uint64_t* words);

/// Some words of a mask in the making, from the word `first` on.
struct MaskWords {
    std::uint64_t* words = nullptr;
    Index first = 0;

    [[nodiscard]] std::uint64_t* at(Index word) const { return words + (word - first); }
};

/// Takes the top k of segments, remembering where each one's threshold was.
class Selector {
  public:
    /// Sets the bits of the k coordinates of [begin, end) that come first in section 5's total order of
    /// |c|. c is e where `current` has no bit, and the payload (packed on `current`) where it has one. The
    /// bits of [begin, end) in `next` are 0 before. `threshold` is what the last call for this segment left
    /// there, 0 at first; it decides nothing but the speed, and only of segments that are neither small nor
    /// large. Any begin and end; other bits in the same words are left alone. `current` has been counted;
    /// `next` need not be.
    static void select(Index begin, Index end, Index k, const float* e, const Mask& current,
                       const float* payload, MaskWords next, std::uint32_t& threshold);
    static void select(Index begin, Index end, Index k, const float* e, const Mask& current,
                       const float* payload, Mask& next, std::uint32_t& threshold) {
        select(begin, end, k, e, current, payload, MaskWords{next.words(), 0}, threshold);
    }
};

/// What is known of a segment's threshold before it is looked for. Decides nothing but the speed.
struct Guess {
    std::uint32_t threshold = 0; ///< where it should be; 0: nothing is known
    std::uint32_t reach = 0;     ///< how far from there it may be
    std::uint32_t last = 0;      ///< the last one

    /// From the one that has been found. A threshold of zeros tells nothing.
    void learn(std::uint32_t found);
    /// False where the threshold jumps: to look for it would bring many candidates, and seldom all.
    [[nodiscard]] bool is_good() const;
};

/// Selections that the local pass has begun, so that nothing is read for them again where the guesses were
/// good.
class SelectionAhead {
  public:
    struct Wanted {
        Index begin = 0;
        Index end = 0;
        Index k = 0;
        Guess guess;
    };

    /// Of these segments, which ascend: makes all their words in `next` fit for take(), and the watches for
    /// a local pass that is cut at `cuts`, from 0 to the model's size.
    void begin(std::span<const Wanted> segments, MaskWords next, std::span<const Index> cuts);
    /// Those of the pass between two cuts.
    [[nodiscard]] std::span<Watch> watches(std::size_t part) { return parts_[part].watches; }
    /// Sets the bits of a segment, by its number, as Selector::select() does, which it falls back on.
    /// Returns the threshold.
    std::uint32_t take(std::size_t segment, const float* e, const Mask& current, const float* payload);
    /// How many of the segments that were taken since begin() had to be read again.
    [[nodiscard]] Index missed() const { return missed_; }

  private:
    struct Part {
        std::vector<Watch> watches;
        std::vector<std::size_t> segments; ///< of each watch
        CandidateRoom room;
    };
    void clear_words(const Wanted& segment, bool watched);
    void forget_watches();
    void watch(std::size_t segment, std::span<const Index> cuts);

    std::vector<Wanted> segments_;
    std::vector<bool> watched_;
    MaskWords next_;
    std::vector<Part> parts_;
    std::vector<const Watch*> found_; ///< those of the segment that is being taken
    Index missed_ = 0;
};

} // namespace truestep::distributed::host

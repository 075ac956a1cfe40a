#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <truestep/distributed/candidate_room.hpp>
#include <truestep/distributed/element.hpp>
#include <truestep/distributed/local.hpp>
#include <truestep/distributed/mask.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/problem/tunable.hpp>

// The passes over memory of one rank, on the host. Each works on coordinates [begin, end), both
// multiples of Mask::chunk or the model's size, or on [begin, end) of a packed vector, so that
// threads can share it; the way of sharing changes no bit.

namespace truestep::distributed::host {

/// The instruction sets for which the passes are written. All give the same bits; the best one of
/// the machine is used.
enum class Variant : std::uint8_t { plain, avx2, avx512, neon };
[[nodiscard]] std::string_view name(Variant variant);
/// The variants of this machine, from the plainest to the best.
[[nodiscard]] std::vector<Variant> supported_variants();
[[nodiscard]] Variant variant();
/// Sets the variant of the whole process, for tests and benchmarks. Throws std::invalid_argument if
/// the machine lacks it.
void use_variant(Variant variant);

/// The score of section 5's comparison: magnitudes as integers. All are below 2^31, so that signed
/// comparisons, which every instruction set has, order them too, and -1 can mean "no coordinate".
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

/// Whole words of a segment in which the local pass, while it has c, looks for the first ones of
/// the selection: a bracket around the expected threshold.
struct Watch {
    Index begin = 0; ///< multiples of Mask::word_bits
    Index end = 0;
    Score low = 0;
    Score high = 0;
    std::uint32_t position = 0;    ///< of `begin`, from the first coordinate of the segment's first word
    std::uint64_t* next = nullptr; ///< these words of the coming mask; gets those above the bracket
    Index above = 0;               ///< how many these are
    Candidates candidates;         ///< those in the bracket; if they exceed the room, some are missing
};

/// The arguments of the local pass.
struct LocalPass {
    const float* g = nullptr;
    const float* e = nullptr;
    float* kept = nullptr; ///< receives the residual: e itself, or g's memory
    const Mask& last;
    const float* m = nullptr; ///< packed on `last`
    const Mask& current;
    float* payload = nullptr;   ///< packed on `current`
    std::span<Watch> watches{}; ///< ascending, all of them within [begin, end)
    bool checks = false;        ///< whether it checks g by section 4.1
};

/// The coordinates whose squares are summed by themselves (section 5).
constexpr Index norm_block = problem::tunable<Index>("norm_block");
/// The coordinates that share a count in the code of positions. Not 256: a count of 0 to 255 fits a
/// byte, and a full block needs no escape.
constexpr Index position_block = problem::tunable<Index>("position_block");

/// The c of whole words of coordinates: in e where `current` has no bit, and packed in payload
/// where it has one. All three begin at the first word.
struct CandidateSource {
    const float* e = nullptr;
    const std::uint64_t* current = nullptr;
    const float* payload = nullptr;
};

/// The passes of a variant.
struct Table {
    /// Section 4.1: the first coordinate whose gradient is refused, or `end`.
    Index (*first_unacceptable)(const float* g, Index begin, Index end);
    /// Sections 4.2, 4.4 and 4.6 in one pass over memory: computes c from m, g and e. On `current` c
    /// goes into the payload and the residual becomes +0; elsewhere the residual becomes c. If it
    /// checks and refuses a gradient, it returns the first such coordinate, where g is intact, and the
    /// rest is incomplete; otherwise `end`.
    Index (*local_pass)(const Scalars& scalars, Index begin, Index end, const LocalPass& pass);
    /// Completes the step where the mask was unknown in the local pass (the bootstrap): moves e on
    /// `current` into `payload` and clears it.
    void (*extract)(Index begin, Index end, float* e, const Mask& current, float* payload);
    /// Packs m, which is packed on `last`, on `current`: +0 where `last` lacks the coordinate. Both
    /// begin at the first value of [begin, end), and do not overlap.
    void (*repack)(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
                   float* m_on_current);
    /// (((c_0 + c_1) + ...) / P on [begin, end); part r begins at parts + r*stride.
    void (*fold)(const Scalars& scalars, int workers, Index begin, Index end, const float* parts,
                 Index stride, float* mean);
    /// Section 21 on packed values: rounds c to bf16 in place, and writes the bits that travel; `lost`
    /// receives the rounding errors.
    void (*to_bf16)(Index begin, Index end, float* c, std::uint16_t* sent, float* lost);
    /// fold() of values in bf16.
    void (*fold_bf16)(const Scalars& scalars, int workers, Index begin, Index end,
                      const std::uint16_t* parts, Index stride, float* mean);
    /// The same for e5m2, with its scale.
    void (*to_e5m2)(const element::E5m2Scale& scale, Index begin, Index end, float* c, std::uint8_t* sent,
                    float* lost);
    void (*fold_e5m2)(const Scalars& scalars, const element::E5m2Scale& scale, int workers, Index begin,
                      Index end, const std::uint8_t* parts, Index stride, float* mean);
    /// The greatest score of packed values; 0 if there are none.
    std::uint32_t (*greatest_score_of)(Index begin, Index end, const float* c);
    /// Computes ghat on a packed [begin, end).
    void (*reconstruct)(const Scalars& scalars, Index begin, Index end, const float* M, const float* m,
                        float* ghat);
    /// The sums of squares of the norm's blocks first..last-1 of a packed vector of `size` values.
    void (*square_sums)(Index first, Index last, const float* ghat, Index size, double* sums);
    /// ghat = ghat*s, and M from it; the three are different vectors.
    void (*clip)(const Scalars& scalars, float s, Index begin, Index end, const float* m, float* ghat,
                 float* M);
    /// Computes u on a packed [begin, end); may overwrite m or ghat.
    void (*directions)(problem::BiasCorrection correction, const Scalars& scalars, Index begin, Index end,
                       const float* M, const float* m, const float* ghat, float* u);
    /// The decay everywhere and the update on `current`, whose u begin at the first of [begin, end).
    /// False if a parameter has turned non-finite. Without decay it touches only the selected
    /// parameters.
    bool (*update)(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current,
                   const float* u);
    /// Section 3 on vectors of full length: M replaces m, and w decays and is updated. False if a
    /// parameter has turned non-finite.
    bool (*dense)(problem::BiasCorrection correction, const Scalars& scalars, Index size, const float* g,
                  float* m, float* w);
    /// True if no value is a NaN or an infinity.
    bool (*finite)(const float* values, Index size);

    /// An inner step. False if a gradient is not finite: the results are then invalid.
    bool (*inner)(InnerRule rule, const Scalars& scalars, Index begin, Index end, const InnerStep& vectors);
    /// Replaces x by y of section 13.3.
    void (*drift)(float eta, Index begin, Index end, const float* theta, float* x);
    /// Sections 13.4 and 13.5 in one pass. False if a theta is not finite.
    bool (*gossip)(const Gossip& gossip, Index begin, Index end, const float* y, float* before,
                   float* theta);

    /// The scores of `words` whole words.
    void (*score_words)(const CandidateSource& source, Index words, Score* scores);
    /// How many of the scores are at least `threshold`, which is not negative.
    Index (*count_at_least)(const Score* scores, Index size, Score threshold);
    /// Writes which scores of a word are above `high`, and which from `low` to `high`.
    void (*between)(const Score* scores, Score low, Score high, std::uint64_t& above,
                    std::uint64_t& inside);
    /// Sets the bits of `words` whole words whose score is above `high`, and adds those from `low`
    /// to `high` to the candidates. The first word's coordinate is `position`. Returns how many
    /// bits it has set. If the candidates exceed their room, it stops early and the bits are
    /// invalid.
    Index (*bracket)(const CandidateSource& source, Index words, std::uint32_t position, Score low,
                     Score high, std::uint64_t* next, Candidates& candidates);

    /// The number of bits in words, and of those that two lists share.
    Index (*count_words)(const std::uint64_t* words, Index count);
    Index (*count_common)(const std::uint64_t* a, const std::uint64_t* b, Index count);

    // The codes in which the bits [begin, end) of a mask travel, at least one bit. Decoding returns
    // false if the code is not valid for k bits; any bits may be set then. In words that also hold
    // other coordinates, the segment's bits must be 0 before.
    /// A bitmap of ceil(n/8) bytes.
    void (*encode_bitmap)(const std::uint64_t* words, Index begin, Index end, std::uint8_t* code);
    bool (*decode_bitmap)(const std::uint8_t* code, Index begin, Index end, Index k, std::uint64_t* words);
    /// A count for each block, and the positions in their blocks. Encoding writes no further than
    /// `positions_end`. Decoding reads as many positions as the counts say, if that is k.
    void (*encode_positions)(const std::uint64_t* words, Index begin, Index end, std::uint8_t* counts,
                             std::uint8_t* positions, const std::uint8_t* positions_end);
    bool (*decode_positions)(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                             Index end, Index k, std::uint64_t* words);
};

/// The passes of the variant in use.
[[nodiscard]] const Table& table();

/// Calls a pass of the variant in use.
template <class Result, class... Arguments>
struct Pass {
    Result (*Table::*pass)(Arguments...);
    [[nodiscard]] Result operator()(Arguments... arguments) const { return (table().*pass)(arguments...); }
};
template <class Result, class... Arguments>
Pass(Result (*Table::*)(Arguments...)) -> Pass<Result, Arguments...>;

// Each pass is called by its name, such as fold(scalars, workers, ...).
inline constexpr Pass first_unacceptable{&Table::first_unacceptable};
inline constexpr Pass local_pass{&Table::local_pass};
inline constexpr Pass extract{&Table::extract};
inline constexpr Pass repack{&Table::repack};
inline constexpr Pass fold{&Table::fold};
inline constexpr Pass to_bf16{&Table::to_bf16};
inline constexpr Pass fold_bf16{&Table::fold_bf16};
inline constexpr Pass to_e5m2{&Table::to_e5m2};
inline constexpr Pass fold_e5m2{&Table::fold_e5m2};
inline constexpr Pass greatest_score_of{&Table::greatest_score_of};
inline constexpr Pass reconstruct{&Table::reconstruct};
inline constexpr Pass square_sums{&Table::square_sums};
inline constexpr Pass clip{&Table::clip};
inline constexpr Pass directions{&Table::directions};
inline constexpr Pass update{&Table::update};
inline constexpr Pass dense{&Table::dense};
inline constexpr Pass finite{&Table::finite};
inline constexpr Pass inner{&Table::inner};
inline constexpr Pass drift{&Table::drift};
inline constexpr Pass gossip{&Table::gossip};
inline constexpr Pass count_common{&Table::count_common};
inline constexpr Pass encode_bitmap{&Table::encode_bitmap};
inline constexpr Pass decode_bitmap{&Table::decode_bitmap};
inline constexpr Pass encode_positions{&Table::encode_positions};
inline constexpr Pass decode_positions{&Table::decode_positions};

/// Adds one more part of a gradient that comes in parts.
void add(Index begin, Index end, const float* g, float* sum);

/// Writes what local_pass() would put into `payload`, for any [begin, end), and changes nothing
/// else. If `sum` holds earlier parts, g is the last one.
void gather(const Scalars& scalars, Index begin, Index end, const float* sum, const float* g,
            const float* e, const Mask& last, const float* m, const Mask& current, float* payload);

/// Writes packed values to the places of `mask` in `to`: the reverse of extract(). They begin at
/// the first of [begin, end).
void spread(Index begin, Index end, const float* packed, const Mask& mask, float* to);
/// The same, but added to the values there.
void add_to(Index begin, Index end, const float* packed, const Mask& mask, float* to);

/// Some words of a mask that is being made, from the word `first` on.
struct MaskWords {
    std::uint64_t* words = nullptr;
    Index first = 0;

    [[nodiscard]] std::uint64_t* at(Index word) const { return words + (word - first); }
};

/// Selects the top k of segments, and remembers each one's threshold.
class Selector {
  public:
    /// Sets the bits of the k coordinates of [begin, end) that come first in section 5's total
    /// order of |c|. c is e where `current` has no bit, and the payload (packed on `current`) where
    /// it has one. The bits of [begin, end) in `next` are 0 before; other bits in the same words do
    /// not change. `threshold` is the result of the last call for this segment, 0 at first. It
    /// affects only the speed, and only for segments that are neither small nor large. `current`
    /// has been counted; `next` need not be.
    static void select(Index begin, Index end, Index k, const float* e, const Mask& current,
                       const float* payload, MaskWords next, std::uint32_t& threshold);
    static void select(Index begin, Index end, Index k, const float* e, const Mask& current,
                       const float* payload, Mask& next, std::uint32_t& threshold) {
        select(begin, end, k, e, current, payload, MaskWords{next.words(), 0}, threshold);
    }
};

/// An estimate of a segment's threshold. It affects only the speed.
struct Guess {
    std::uint32_t threshold = 0; ///< the expected threshold; 0: unknown
    std::uint32_t reach = 0;     ///< how far from there it may be
    std::uint32_t last = 0;      ///< the last one

    /// Learns from the threshold that was found. A threshold of zero teaches nothing.
    void learn(std::uint32_t found);
    /// False where the threshold jumps: the search would bring many candidates, and seldom all.
    [[nodiscard]] bool is_good() const;
};

/// Selections that the local pass has begun, so that good guesses save a second reading.
class SelectionAhead {
  public:
    struct SegmentRequest {
        Index begin = 0;
        Index end = 0;
        Index k = 0;
        Guess guess;
    };

    /// Prepares these segments, which ascend: makes all their words in `next` fit for take(), and
    /// the watches for a local pass that is cut at `cuts`, from 0 to the model's size.
    void begin(std::span<const SegmentRequest> segments, MaskWords next, std::span<const Index> cuts);
    /// The watches of the pass between two cuts.
    [[nodiscard]] std::span<Watch> watches(std::size_t part) { return parts_[part].watches; }
    /// Sets the bits of a segment, by its number, like Selector::select(), which is the fallback.
    /// Returns the threshold.
    std::uint32_t take(std::size_t segment, const float* e, const Mask& current, const float* payload);
    /// How many of the segments taken since begin() had to be read again.
    [[nodiscard]] Index missed() const { return missed_; }

  private:
    struct Part {
        std::vector<Watch> watches;
        std::vector<std::size_t> segments; ///< of each watch
        CandidateRoom room;
    };
    void clear_words(const SegmentRequest& segment, bool watched);
    void forget_watches();
    void watch(std::size_t segment, std::span<const Index> cuts);

    std::vector<SegmentRequest> segments_;
    std::vector<bool> watched_;
    MaskWords next_;
    std::vector<Part> parts_;
    std::vector<const Watch*> found_; ///< those of the segment that is being taken
    Index missed_ = 0;
};

} // namespace truestep::distributed::host

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <scape/distributed/element.hpp>
#include <scape/distributed/mask.hpp>
#include <scape/problem/problem.hpp>

// The passes over memory of one rank, on the host. Each works on coordinates [begin, end), both multiples
// of Mask::chunk or the model's size, or on [begin, end) of a packed vector, so that threads can share it;
// how it is shared changes no bit.

namespace scape::distributed::host {

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

/// Sections 4.2, 4.4 and 4.6 in one pass over memory: c from m (packed on `last`), g and e; on `current` c
/// goes into `payload` (packed on it) and e becomes +0; elsewhere e becomes c.
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

/// The decay everywhere and the update on `current`. False if a parameter has turned non-finite. Without
/// decay only the selected parameters are touched.
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
// code is none of k bits there. They are 0 before; if it is false, any of them may be set.

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
                       const float* payload, Mask& next, std::uint32_t& threshold);
};

} // namespace scape::distributed::host

// The variant for x86 machines with AVX-512, which expands and compresses in registers (compressing to
// memory is microcode on some machines), and has instructions for bytes.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "scalar.hpp"
#include "table.hpp"

// AVX-512 includes fused multiply-add: only -ffp-contract=off keeps the compiler from using it
// (section 5), and the tests notice.
#define TRUESTEP_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,bmi,bmi2,popcnt")))

namespace truestep::distributed::host {
namespace avx512 {
namespace {

#include "packed.hpp"

constexpr Index group_size = 16;       ///< coordinates in a register
constexpr std::uintptr_t ahead = 4096; ///< of the streams, in bytes; measured on Sapphire Rapids

using Floats = __m512;
using Scores = __m512i;

TRUESTEP_TARGET inline Floats all_of(float value) {
    return _mm512_set1_ps(value);
}
TRUESTEP_TARGET inline Scores scores_of(Floats values) {
    return _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(greatest_score));
}
TRUESTEP_TARGET inline Scores greater_of(Scores a, Scores b) {
    // It is masked, though all count: GCC 12 takes the plain intrinsic for a use of something
    // uninitialized.
    return _mm512_mask_max_epi32(a, 0xffff, a, b);
}
TRUESTEP_TARGET inline std::uint64_t above(Scores scores, Score limit) {
    return _mm512_cmpgt_epi32_mask(scores, _mm512_set1_epi32(limit));
}
TRUESTEP_TARGET inline __mmask16 bits_from(std::uint64_t word, Index place) {
    return static_cast<__mmask16>(word >> static_cast<unsigned>(place));
}
TRUESTEP_TARGET inline Floats expanded(std::uint64_t word, Index place, Floats packed) {
    return _mm512_maskz_expand_ps(bits_from(word, place), packed);
}
TRUESTEP_TARGET inline Floats compressed(std::uint64_t word, Index place, Floats values) {
    return _mm512_maskz_compress_ps(bits_from(word, place), values);
}
TRUESTEP_TARGET inline Floats left_of(std::uint64_t word, Index place, Floats values) {
    return _mm512_maskz_mov_ps(_knot_mask16(bits_from(word, place)), values);
}

#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"
// Over those.
#include "avx512_bits.hpp"
#include "registers.hpp"

} // namespace
} // namespace avx512

const Table avx512_table =
    avx512::table_with(avx512::count_set, avx512::encode_positions, avx512::decode_positions);

} // namespace truestep::distributed::host

#endif

// The variant for x86 machines with AVX2. The loops are those of the plain variant, except for the
// bits of comparisons.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "scalar.hpp"
#include "table.hpp"

// Without FMA and everything else that AVX2 does not imply: no multiplication can be contracted
// here.
#define TRUESTEP_TARGET __attribute__((target("avx2,bmi,popcnt")))

namespace truestep::distributed::host {
namespace avx2 {
namespace {

/// Which scores of a word are above `high`, and which from `low` to `high`.
TRUESTEP_TARGET void between(const Score* scores, Score low, Score high, std::uint64_t& above,
                             std::uint64_t& inside) {
    const __m256i above_this = _mm256_set1_epi32(high);
    const __m256i at_least_this = _mm256_set1_epi32(low - 1);
    above = 0;
    inside = 0;
    for (unsigned i = 0; i < 64; i += 8) {
        __m256i part;
        std::memcpy(&part, scores + i, sizeof part);
        const __m256i is_above = _mm256_cmpgt_epi32(part, above_this);
        const __m256i is_inside = _mm256_andnot_si256(is_above, _mm256_cmpgt_epi32(part, at_least_this));
        const int above_bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_above));
        const int inside_bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_inside));
        above |= static_cast<std::uint64_t>(static_cast<unsigned>(above_bits)) << i;
        inside |= static_cast<std::uint64_t>(static_cast<unsigned>(inside_bits)) << i;
    }
}

#include "packed.hpp"
// Over the blocks of packed.hpp.
#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"

} // namespace
} // namespace avx2

const Table avx2_table{.first_unacceptable = avx2::first_unacceptable,
                       .local_pass = avx2::local_pass,
                       .extract = avx2::extract,
                       .repack = avx2::repack,
                       .fold = avx2::fold,
                       .to_bf16 = avx2::to_bf16,
                       .fold_bf16 = avx2::fold_bf16,
                       .to_e5m2 = avx2::to_e5m2,
                       .fold_e5m2 = avx2::fold_e5m2,
                       .greatest_score_of = avx2::greatest_score_of,
                       .reconstruct = avx2::reconstruct,
                       .square_sums = avx2::square_sums,
                       .clip = avx2::clip,
                       .directions = avx2::directions,
                       .update = avx2::update,
                       .dense = avx2::dense,
                       .finite = avx2::finite,
                       .inner = avx2::inner,
                       .drift = avx2::drift,
                       .gossip = avx2::gossip,
                       .score_words = avx2::score_words,
                       .count_at_least = avx2::count_at_least,
                       .between = avx2::between,
                       .bracket = avx2::bracket,
                       .count_words = avx2::count_words,
                       .count_common = avx2::count_common,
                       .encode_bitmap = avx2::encode_bitmap,
                       .decode_bitmap = avx2::decode_bitmap,
                       .encode_positions = avx2::plain_encode_positions,
                       .decode_positions = avx2::plain_decode_positions};

} // namespace truestep::distributed::host

#endif

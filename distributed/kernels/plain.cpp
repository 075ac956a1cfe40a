// The variant for every machine: standard C++, in the compiler's target instruction set.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "scalar.hpp"
#include "table.hpp"

#define TRUESTEP_TARGET

namespace truestep::distributed::host {
namespace plain {
namespace {

/// Which scores of a word are above `high`, and which from `low` to `high`.
void between(const Score* scores, Score low, Score high, std::uint64_t& above, std::uint64_t& inside) {
    above = 0;
    inside = 0;
    for (unsigned i = 0; i < 64; ++i) {
        const bool is_above = scores[i] > high;
        above |= static_cast<std::uint64_t>(is_above) << i;
        inside |= static_cast<std::uint64_t>(scores[i] >= low && !is_above) << i;
    }
}

#include "packed.hpp"
// Over the blocks of packed.hpp.
#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"

void local_words(const Scalars& /*s*/, const LocalPass& /*pass*/, Index /*words*/, LocalPlace& /*at*/) {}

Index repack_words(Index /*words*/, const std::uint64_t* /*last*/, const float*& /*m*/,
                   const float* /*m_end*/, const std::uint64_t* /*current*/, float*& /*packed*/,
                   const float* /*packed_end*/) {
    return 0;
}

Index update_words(const Scalars& /*s*/, Index /*words*/, float* /*w*/, const std::uint64_t* /*current*/,
                   const float*& /*u*/, const float* /*u_end*/, Score& /*worst*/) {
    return 0;
}

} // namespace
} // namespace plain

const Table plain_table{.first_unacceptable = plain::first_unacceptable,
                        .local_pass = plain::local_pass,
                        .extract = plain::extract,
                        .repack = plain::repack,
                        .fold = plain::fold,
                        .to_bf16 = plain::to_bf16,
                        .fold_bf16 = plain::fold_bf16,
                        .to_e5m2 = plain::to_e5m2,
                        .fold_e5m2 = plain::fold_e5m2,
                        .greatest_score_of = plain::greatest_score_of,
                        .reconstruct = plain::reconstruct,
                        .square_sums = plain::square_sums,
                        .clip = plain::clip,
                        .directions = plain::directions,
                        .update = plain::update,
                        .dense = plain::dense,
                        .finite = plain::finite,
                        .inner = plain::inner,
                        .drift = plain::drift,
                        .gossip = plain::gossip,
                        .score_words = plain::score_words,
                        .count_at_least = plain::count_at_least,
                        .between = plain::between,
                        .bracket = plain::bracket,
                        .count_words = plain::count_words,
                        .count_common = plain::count_common,
                        .encode_bitmap = plain::encode_bitmap,
                        .decode_bitmap = plain::decode_bitmap,
                        .encode_positions = plain::plain_encode_positions,
                        .decode_positions = plain::plain_decode_positions};

} // namespace truestep::distributed::host

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

#include "packed.hpp"
// Over the blocks of packed.hpp.
#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"

void between(const Score* scores, Score low, Score high, std::uint64_t& above, std::uint64_t& inside) {
    above = 0;
    inside = 0;
    for (unsigned i = 0; i < 64; ++i) {
        const bool is_above = scores[i] > high;
        above |= static_cast<std::uint64_t>(is_above) << i;
        inside |= static_cast<std::uint64_t>(scores[i] >= low && !is_above) << i;
    }
}

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

const Table plain_table =
    plain::table_with(plain::count_words, plain::plain_encode_positions, plain::plain_decode_positions);

} // namespace truestep::distributed::host

// The variant for 64-bit Arm: what registers.hpp needs of four values, by permutations of bytes.
#if defined(__aarch64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <arm_neon.h>

#include "scalar.hpp"
#include "table.hpp"

#define TRUESTEP_TARGET // every 64-bit Arm has it

namespace truestep::distributed::host {
namespace neon {
namespace {

#include "packed.hpp"

constexpr Index group_size = 4;        ///< coordinates in a register
constexpr std::uintptr_t ahead = 2048; ///< of the streams, in bytes; as AVX2 has it, for no Arm was at hand

/// These bytes move four values between their places and a packed vector, for each four bits of a mask.
/// Where there is no value they exceed the register, which gives +0.
struct Moves {
    constexpr explicit Moves(bool to_places) {
        for (unsigned bits = 0; bits < 16; ++bits) {
            for (std::uint8_t& byte : bytes[bits])
                byte = 0xff;
            std::uint8_t count = 0;
            for (std::uint8_t place = 0; place < group_size; ++place) {
                if ((bits >> place & 1U) == 0)
                    continue;
                for (std::uint8_t byte = 0; byte < 4; ++byte)
                    bytes[bits][(to_places ? place : count) * 4 + byte] =
                        static_cast<std::uint8_t>((to_places ? count : place) * 4 + byte);
                ++count;
            }
        }
    }
    std::uint8_t bytes[16][4 * group_size]{};
};
alignas(64) constexpr Moves to_places(true);
alignas(64) constexpr Moves to_packed(false);

inline uint8x16_t moves_of(const Moves& moves, std::uint64_t word, Index place) {
    return vld1q_u8(moves.bytes[word >> static_cast<unsigned>(place) & 0xfU]);
}

using Floats = float32x4_t;
using Scores = int32x4_t;

inline Floats moved(Floats values, uint8x16_t moves) {
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(values), moves));
}
inline Floats all_of(float value) {
    return vdupq_n_f32(value);
}
inline Scores scores_of(Floats values) {
    return vandq_s32(vreinterpretq_s32_f32(values), vdupq_n_s32(greatest_score));
}
inline Scores greater_of(Scores a, Scores b) {
    return vmaxq_s32(a, b);
}
inline std::uint64_t above(Scores scores, Score limit) {
    constexpr std::uint32_t bits[group_size] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_s32(scores, vdupq_n_s32(limit)), vld1q_u32(bits)));
}
inline Floats expanded(std::uint64_t word, Index place, Floats packed) {
    return moved(packed, moves_of(to_places, word, place));
}
inline Floats compressed(std::uint64_t word, Index place, Floats values) {
    return moved(values, moves_of(to_packed, word, place));
}
inline Floats left_of(std::uint64_t word, Index place, Floats values) {
    const uint8x16_t absent = vcltzq_s8(vreinterpretq_s8_u8(moves_of(to_places, word, place)));
    return vreinterpretq_f32_u8(vandq_u8(vreinterpretq_u8_f32(values), absent));
}

#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"
// Over those.
#include "registers.hpp"

} // namespace
} // namespace neon

const Table neon_table =
    neon::table_with(neon::count_words, neon::plain_encode_positions, neon::plain_decode_positions);

} // namespace truestep::distributed::host

#endif

// The register of the constants that cut work up: sizes at which code begins another block, tile, chunk or
// way. The gate draws cases at their edges (docs/edges.md), and a constant outside of it fails a test.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace truestep::problem {

/// The sizes that constants cut, counted in values of a case.
enum class Dimension : std::uint8_t {
    model,    ///< coordinates of the model
    share,    ///< coordinates that a rank owns
    segment,  ///< coordinates of a segment from which some are selected
    selected, ///< selected coordinates of a step
    message,  ///< values that one rank sends another in a step
    tokens,   ///< tokens of a micro-batch
    words,    ///< codewords of a book
    part,     ///< coordinates of a token that one book quantizes
    inside,   ///< what no case shows, such as candidates; nobody counts who crosses these
};

[[nodiscard]] constexpr std::string_view name(Dimension dimension) {
    constexpr std::array<std::string_view, 9> names{"model",  "share", "segment", "selected", "message",
                                                    "tokens", "words", "part",    "inside"};
    return names[static_cast<std::size_t>(dimension)];
}

/// A constant, its value in each build, and the size of its dimension at which it cuts: 8 words of 64 cut
/// at 512 coordinates.
struct Cut {
    std::string_view name;
    Dimension dimension;
    std::int64_t usual;
    std::int64_t
        tiny; ///< the value in a build with TRUESTEP_TINY: so small that the gate's cases exceed it
    std::int64_t usual_size = 0; ///< where it cuts, if that is not the value itself
    std::int64_t tiny_size = 0;

    /// Its edge in this build.
    [[nodiscard]] constexpr std::int64_t edge() const {
#ifdef TRUESTEP_TINY
        return tiny_size > 0 ? tiny_size : tiny;
#else
        return usual_size > 0 ? usual_size : usual;
#endif
    }
};

/// Those whose two values are equal are promises of the specification; any value of the others gives the
/// same bits.
inline constexpr std::array cuts{
    // Loops of hosts.
    Cut{"word_bits", Dimension::model, 64, 64},
    Cut{"norm_lanes", Dimension::selected, 256, 256},
    Cut{"norm_block", Dimension::selected, 4096, 4096},
    Cut{"position_block", Dimension::segment, 255, 255},
    Cut{"batch_blocks", Dimension::segment, 64, 64, 16'320, 16'320},
    Cut{"block_size", Dimension::selected, 256, 64},
    Cut{"chunk", Dimension::model, 4096, 64},
    Cut{"dense_block", Dimension::share, 4096, 7},
    Cut{"dense_unit", Dimension::share, 1024, 4},
    // The selection of a mask.
    Cut{"small_segment", Dimension::segment, 8192, 128},
    Cut{"block_words", Dimension::segment, 8, 2, 512, 128},
    Cut{"large_segment", Dimension::segment, 1 << 18, 300},
    Cut{"few_scores", Dimension::segment, 4096, 16},
    Cut{"spare_candidates", Dimension::inside, 1024, 4},
    Cut{"samples_together", Dimension::inside, 4096, 16},
    Cut{"least_samples", Dimension::inside, 1024, 8},
    Cut{"most_samples", Dimension::inside, 1 << 16, 32},
    Cut{"worth_a_call", Dimension::inside, 1 << 18, 64},
    // Messages and files.
    Cut{"sum_block", Dimension::message, 1024, 7},
    Cut{"worth_a_message", Dimension::message, 1 << 13, 5},
    Cut{"mail_piece", Dimension::message, 1 << 20, 24, 1 << 18, 6},
    Cut{"read_piece", Dimension::inside, 1 << 20, 40},
    // GASLoC.
    Cut{"fold_piece", Dimension::model, 1 << 16, 8},
    Cut{"fold_unit", Dimension::model, 4096, 4},
    // MAPL.
    Cut{"codec_tokens", Dimension::tokens, 128, 8},
    Cut{"score_lanes", Dimension::words, 32, 4},
    Cut{"square_lanes", Dimension::part, 8, 4},
    Cut{"compressed_rows", Dimension::tokens, 256, 8},
    // Devices.
    Cut{"block_threads", Dimension::inside, 256, 64},
    Cut{"tile", Dimension::model, 4096, 256},
    Cut{"counts_group", Dimension::model, 4096, 64, 1 << 24, 1 << 14},
    Cut{"quads_in_flight", Dimension::inside, 4, 1},
    Cut{"code_tile_blocks", Dimension::segment, 256, 8, 65'280, 2040},
    Cut{"code_count_tiles", Dimension::segment, 8, 2, 522'240, 4080},
    Cut{"decode_tiles", Dimension::model, 16, 2, 1 << 16, 512},
    Cut{"count_tiles", Dimension::model, 16, 2, 1 << 16, 512},
    Cut{"most_group_tiles", Dimension::segment, 16, 16, 1 << 16, 4096},
    Cut{"common_words", Dimension::model, 4096, 3, 1 << 18, 192},
    Cut{"tree_group", Dimension::selected, 1024, 4, 1 << 22, 1 << 14},
    Cut{"wanted_groups", Dimension::inside, 2048, 2},
    Cut{"nearest_tokens", Dimension::tokens, 256, 64},
};

/// The value of a registered constant in this build. A name outside of the register does not compile.
template <class T>
consteval T tunable(std::string_view name) {
    for (const Cut& cut : cuts)
        if (cut.name == name)
#ifdef TRUESTEP_TINY
            return static_cast<T>(cut.tiny);
#else
            return static_cast<T>(cut.usual);
#endif
    throw "register it in truestep/problem/tunable.hpp"; // NOLINT: it ends the compiler, not a program
}

} // namespace truestep::problem

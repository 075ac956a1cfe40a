#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/mapl/settings.hpp>

// What the two sides have to agree on where Z travels as indices of codewords: section 23.1.
namespace truestep::problem::mapl {

using Word = std::uint32_t;

[[nodiscard]] inline bool quantizes(const Settings& settings) {
    return settings.quantization.codewords > 0;
}

/// All codebooks of a side, one behind the other: group after group, in it round after round, in that K
/// codewords of r / Gr values each.
struct Codebooks {
    std::size_t books = 0; ///< Gr R
    std::size_t words = 0; ///< K
    std::size_t width = 0; ///< r / Gr

    [[nodiscard]] std::size_t size() const { return books * words * width; }
    [[nodiscard]] std::size_t at(std::size_t book, std::size_t word) const {
        return (book * words + word) * width;
    }
};
[[nodiscard]] Codebooks codebooks_of(const Settings& settings);

/// Throws truestep::Error, one line.
void check_quantization(const Settings& settings);

/// The first codeword of each book is 0, so that no round makes what is left of a vector longer. Throws
/// truestep::Error, which begins with `what`. No values at all are none that are wrong.
void check_codebooks(const Settings& settings, std::span<const float> values, const std::string& what);

/// ceil(log2 K).
[[nodiscard]] unsigned index_bits(Index codewords);
/// Of all indices of so many tokens, packed.
[[nodiscard]] std::size_t index_bytes(const Settings& settings, std::size_t tokens);
/// Of the codewords that travel with a micro-batch.
[[nodiscard]] std::size_t codeword_bytes(const Settings& settings);

/// The codewords that travel with the micro-batch before which `micro_batches` have gone, in their order:
/// the same ones of every book. After S micro-batches each has gone once.
[[nodiscard]] std::vector<Word> travelling(const Settings& settings, Index micro_batches);

/// Where learning starts: from the same settings the same bits.
[[nodiscard]] std::vector<float> first_codebooks(const Settings& settings);

} // namespace truestep::problem::mapl

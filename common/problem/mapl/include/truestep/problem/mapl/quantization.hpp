#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/mapl/settings.hpp>

// What the two sides must agree on where Z travels as indices of codewords (section 23.1).
namespace truestep::problem::mapl {

using Word = std::uint32_t;

[[nodiscard]] inline bool quantizes(const Settings& settings) {
    return settings.quantization.codewords > 0;
}

/// The shape of a side's codebooks, stored one after another: by group, then by round, then K
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

/// Checks that the first codeword of each book is 0, so that no round lengthens a vector's
/// remainder. Throws truestep::Error, which begins with `what`. No values at all are accepted.
void check_codebooks(const Settings& settings, std::span<const float> values, const std::string& what);

/// ceil(log2 K).
[[nodiscard]] unsigned index_bits(Index codewords);
/// The packed size of all indices of this number of tokens.
[[nodiscard]] std::size_t index_bytes(const Settings& settings, std::size_t tokens);
/// The size of the codewords that travel with a micro-batch.
[[nodiscard]] std::size_t codeword_bytes(const Settings& settings);

/// The codewords that travel with a micro-batch, in their order and the same ones of every book.
/// `micro_batches` counts those sent before. After S micro-batches each codeword has travelled
/// once.
[[nodiscard]] std::vector<Word> travelling(const Settings& settings, Index micro_batches);

/// The codebooks where learning starts: equal settings give equal bits.
[[nodiscard]] std::vector<float> first_codebooks(const Settings& settings);

} // namespace truestep::problem::mapl

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::distributed::mapl {

/// The nearest codewords of Z's rows, and what is learned from them: section 23.1, bit for bit.
/// Distances come from a matrix product: |v - c|^2 is |c|^2 - 2 v c plus a common term. If several
/// codewords may be the nearest within the rounding of that, the specification's own sum decides.
class Codec {
  public:
    explicit Codec(const Settings& settings);

    /// Encodes N x r values as N x Gr R indices. `learned` are codebooks, which this updates.
    [[nodiscard]] std::vector<Word> encode(std::span<const float> z, std::span<const float> codebooks,
                                           std::span<float> learned);
    /// Decodes to N x r values.
    void decode(std::span<const Word> indices, std::span<const float> codebooks, float* z) const;

  private:
    void choose(std::size_t tokens, const float* words, Word* indices, std::size_t stride);
    [[nodiscard]] Word nearest(const float* v, const float* words, const float* products,
                               float farthest) const;
    void learn(std::size_t tokens, const Word* indices, std::size_t stride, float* words);

    Settings settings_;
    Codebooks shape_;
    // Memory that the next micro-batch reuses.
    Floats left_;     ///< of a group: the input of its next round, N x r / Gr
    Floats products_; ///< -2 v c of some tokens and all codewords
    Floats sizes_;    ///< |c|^2
    Floats sums_;     ///< over the rows for which each codeword was chosen
    std::vector<std::size_t> counts_;
};

/// Packs indices into this many bits each, from the lowest bit of the first byte on.
void pack_indices(std::span<const Word> indices, unsigned bits, std::byte* to);
void unpack_indices(const std::byte* from, unsigned bits, std::span<Word> indices);

/// The given codewords of every book, as they travel; and back to their places.
void gather_codewords(const Codebooks& shape, std::span<const Word> words, std::span<const float> codebooks,
                      std::byte* to);
void scatter_codewords(const Codebooks& shape, std::span<const Word> words, const std::byte* from,
                       std::span<float> codebooks);

} // namespace truestep::distributed::mapl

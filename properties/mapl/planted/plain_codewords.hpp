// Vector quantization for the plain ends.
#pragma once

#include <truestep/problem/mapl/quantization.hpp>

#include "plain.hpp"
#include "plain_numbers.hpp"
#include "plain_payload.hpp"

namespace truestep::properties::mapl::plain {

/// One end's codebooks, as flat vectors, and what it does with them.
class Codewords {
  public:
    Codewords() = default;
    /// `learned` is empty for a receiver.
    Codewords(Wrong wrong, const Settings& settings, Floats books, Floats learned, bool sends, Index start);

    [[nodiscard]] bool any() const { return quantizes(settings_); }
    [[nodiscard]] const Floats& books() const { return books_; }
    [[nodiscard]] const Floats& learned() const { return learned_; }

    /// The indices of one micro-batch's Z, from which it learns.
    [[nodiscard]] std::vector<Word> indices(const Table& z);
    [[nodiscard]] Message packed(const std::vector<Word>& indices) const;
    /// The codewords that follow the ids in a message, after `so_far` micro-batches; the receiver has these
    /// books then.
    [[nodiscard]] Message words(Index so_far);

    /// For the receiver: Z from a message that begins with the indices and has the codewords from
    /// `words_at` on.
    [[nodiscard]] Table decoded(const Message& message, std::size_t tokens, std::size_t words_at,
                                Index so_far);

  private:
    [[nodiscard]] std::vector<Word> subset(Index so_far) const;
    [[nodiscard]] Word nearest(const float* v, const Floats& of, std::size_t book) const;
    void learn(std::size_t book, const Table& left, const std::vector<Word>& indices);
    void put(const Message& message, std::size_t from, Index so_far);

    Wrong wrong_ = nothing;
    Settings settings_{};
    Codebooks shape_{};
    Floats books_;
    Floats learned_;
    Index start_ = 0; ///< micro-batches before this end was made
};

} // namespace truestep::properties::mapl::plain

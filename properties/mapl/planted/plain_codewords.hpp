#pragma once

#include <truestep/problem/mapl/quantization.hpp>

#include "plain.hpp"
#include "plain_numbers.hpp"
#include "plain_payload.hpp"

namespace truestep::properties::mapl::plain {

/// Vector quantization, as plain as can be: one end's codebooks, flat, and what it does with them.
class Codewords {
  public:
    Codewords() = default;
    /// `learned` of a sender, nothing of a receiver.
    Codewords(Wrong wrong, const Settings& settings, Floats books, Floats learned, bool sends, Index start);

    [[nodiscard]] bool any() const { return quantizes(settings_); }
    [[nodiscard]] const Floats& books() const { return books_; }
    [[nodiscard]] const Floats& learned() const { return learned_; }

    /// Z of one micro-batch; `so_far` have gone before it. It learns.
    [[nodiscard]] std::vector<Word> indices(const Table& z);
    [[nodiscard]] Message packed(const std::vector<Word>& indices) const;
    /// What follows the ids; the books are what the receiver has then.
    [[nodiscard]] Message words(Index so_far);

    /// The receiver's: of a message that begins with the indices and has the codewords from `words_at` on.
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

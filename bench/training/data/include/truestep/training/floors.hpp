#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/training/text.hpp>

// Losses of counting models: a model that is not better has not learned (section 30).

namespace truestep::training {

/// Interpolated Witten-Bell n-grams of one text, of all orders up to 7 at once. The order is the
/// number of previous symbols used.
class NGrams {
  public:
    static constexpr std::size_t orders = 8;

    NGrams(std::span<const std::uint8_t> text, std::size_t symbols);

    /// The probability of `next` behind `before` for each order. Orders beyond the length of
    /// `before` use its whole length.
    [[nodiscard]] std::vector<double> chances(std::span<const std::uint8_t> before,
                                              std::uint8_t next) const;

  private:
    /// Sequences of order + 1 symbols that occur, the last symbol in the lowest byte, in ascending
    /// order. So those with the same begin are adjacent.
    struct Counted {
        std::vector<std::uint64_t> runs;
        std::vector<std::uint32_t> times;
    };
    std::size_t symbols_;
    std::vector<Counted> of_order_;
};

struct Floor {
    std::size_t order = 0;
    double loss = 0; ///< nats a symbol
};

/// Each order's loss on the measured part, counted on the learned part. Neither counting nor
/// context crosses from one part into the other.
[[nodiscard]] std::vector<Floor> floors(const Text& text);
/// "unigram", "bigram", "trigram", "4-gram", ...
[[nodiscard]] std::string name(const Floor& floor);
/// The loss of order 2, which a run has to beat before it can say anything about optimizers.
[[nodiscard]] double trigram(const std::vector<Floor>& floors);

} // namespace truestep::training

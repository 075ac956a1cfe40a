#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/training/text.hpp>

// What counting alone reaches: a model that is no better has not learned (section 30).

namespace truestep::training {

/// Interpolated Witten-Bell n-grams of one text, of all orders up to 7 at once. The order is the number of
/// symbols that are looked back at.
class NGrams {
  public:
    static constexpr std::size_t orders = 8;

    NGrams(std::span<const std::uint8_t> text, std::size_t symbols);

    /// The chance of `next` behind `before` by each order; one that would look back farther than `before`
    /// reaches is as the greatest that does not.
    [[nodiscard]] std::vector<double> chances(std::span<const std::uint8_t> before,
                                              std::uint8_t next) const;

  private:
    /// Runs of order + 1 symbols that occur, the last in the lowest byte, in ascending order: all that
    /// begin alike stand together.
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

/// What each order, counted on the learned part, loses on the measured one. Nothing is counted on from one
/// part into the other, nor looked back at.
[[nodiscard]] std::vector<Floor> floors(const Text& text);
/// "unigram", "bigram", "trigram", "4-gram", ...
[[nodiscard]] std::string name(const Floor& floor);
/// The loss that a run has to beat before it says anything of optimizers: of order 2.
[[nodiscard]] double trigram(const std::vector<Floor>& floors);

} // namespace truestep::training

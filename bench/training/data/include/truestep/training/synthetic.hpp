#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/training/text.hpp>

// A synthetic text with known entropy: a Markov chain of order 2, with spans that repeat earlier
// ones (docs/specification/training.md, section 29).

namespace truestep::training {

struct SyntheticSettings {
    std::uint64_t seed = 1;
    std::size_t symbols = 64;
    std::size_t kinds = 8;       ///< of the symbol before the last: a row hangs on this and on the last one
    std::size_t successors = 8;  ///< that a row has, of all symbols
    std::uint32_t begins = 2048; ///< of 65536: how often a copied span begins where none runs
    std::uint32_t ends = 2048;   ///< of 65536: how often one that runs ends
    std::size_t nearest = 16;    ///< symbols back that a span may copy from
    std::size_t farthest = 47;
    std::size_t learned = std::size_t{1} << 18U;
    std::size_t measured = std::size_t{1} << 16U;
};

/// The chain without copies. Its probabilities are quotients of integers.
class Chain {
  public:
    explicit Chain(const SyntheticSettings& settings);

    [[nodiscard]] double probability(std::uint8_t before, std::uint8_t last, std::uint8_t next) const;
    /// The symbol that these 64 bits draw.
    [[nodiscard]] std::uint8_t draw(std::uint8_t before, std::uint8_t last, std::uint64_t bits) const;
    /// Nats a symbol, by the stationary distribution, for a text without copies.
    [[nodiscard]] double entropy_rate() const;

  private:
    struct Row {
        std::vector<std::uint8_t> successors;
        std::vector<std::uint32_t> up_to; ///< sums of their weights
    };
    [[nodiscard]] std::size_t index(std::size_t before, std::size_t last) const {
        return (before % kinds_ * symbols_) + last;
    }

    std::size_t symbols_;
    std::size_t kinds_;
    std::vector<Row> rows_;
};

/// Predicts the next symbol from knowledge of the source, but not of where it copies: the forward
/// filter over the hidden state, which is "free" or a distance.
class Filter {
  public:
    Filter(const Chain& chain, const SyntheticSettings& settings);

    /// Returns the probability of this symbol after all previous ones, and appends it to them.
    double take(std::uint8_t symbol);

  private:
    void move_on();
    /// The probability of this symbol if nothing is copied.
    [[nodiscard]] double free_chance(std::uint8_t symbol) const;

    const Chain& chain_;
    SyntheticSettings settings_;
    std::vector<std::uint8_t> past_;
    double free_ = 1.0;           ///< how likely it is that nothing is copied now
    std::vector<double> copying_; ///< and that it is from `nearest` + i symbols back
};

/// The text's entropy is the loss of the source itself on the measured part: exact for this text,
/// not a mean over texts.
[[nodiscard]] Text synthetic_text(const SyntheticSettings& settings);

} // namespace truestep::training

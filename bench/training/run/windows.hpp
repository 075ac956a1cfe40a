#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/training/model.hpp>
#include <truestep/training/text.hpp>

namespace truestep::training {

/// Cuts batches out of a text. A batch is valid until the next one is cut.
class Windows {
  public:
    Windows(const Text& text, std::size_t context, std::size_t measured);

    /// A batch to learn from, determined by these numbers.
    [[nodiscard]] const Batch& drawn(std::uint64_t seed, int rank, std::size_t step, std::size_t windows);
    /// `windows` of the measured windows, from `first` on. They do not overlap, and cover the text
    /// evenly.
    [[nodiscard]] const Batch& measured(std::size_t first, std::size_t windows);
    /// The number of measured windows: as requested, or as many as the text has.
    [[nodiscard]] std::size_t measured_count() const { return measured_count_; }

  private:
    void clear();
    void add(const std::vector<std::uint8_t>& from, std::size_t begin);
    [[nodiscard]] const Batch& taken();

    const Text& text_;
    std::size_t context_;
    std::size_t measured_count_;
    std::vector<std::uint8_t> inputs_;
    std::vector<std::uint8_t> targets_;
    Batch batch_;
};

} // namespace truestep::training

// Statistics of errors as shares of their limits.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace truestep::properties::scape::floats {

/// How far results lie from their yardsticks, in shares of the limit.
class Shares {
  public:
    void add(double expected, double limit, float actual);
    void add(const Shares& other);

    [[nodiscard]] static std::string head();
    [[nodiscard]] std::string row(const std::string& name) const;

    std::uint64_t compared = 0;  ///< with a finite limit
    std::uint64_t unbounded = 0; ///< without one
    std::uint64_t too_large = 0; ///< beyond fp32, where the level says nothing; not compared
    std::uint64_t exact = 0;     ///< of the compared, without any error
    std::uint64_t outside = 0;
    double worst = 0.0; ///< the greatest share of the limit
    std::string first;  ///< the first that lay outside

  private:
    static constexpr int per_octave = 8;
    static constexpr int octaves = 64;
    /// The median of limit over error, if there is one.
    [[nodiscard]] std::string median() const;
    std::array<std::uint64_t, static_cast<std::size_t>(per_octave* octaves)> counts_{};
};

} // namespace truestep::properties::scape::floats

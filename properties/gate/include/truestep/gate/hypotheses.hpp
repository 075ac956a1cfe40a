#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

// Each known mistake is a hypothesis: which of them makes what was recorded? Of any system, which says what
// can be seen of a run after one step.

namespace truestep::gate {

/// As bits, result after result, and of each every rank's; empty where one is not known.
using SeenBits = std::vector<std::vector<std::uint32_t>>;

/// Of floats as their bits, of a mask as its bytes.
template <class Values>
[[nodiscard]] std::vector<std::uint32_t> seen_bits(const Values& values);

struct Hypotheses {
    std::vector<Mistake> mistakes; ///< of which those of code for devices are not tried
    int ranks = 1;
    SeenBits recorded;
    /// What a run with that mistake shows; 0 has none. Nothing where it does not come so far.
    std::function<std::optional<SeenBits>(int number)> run;
    /// How near what is counted as the same is: a system in which sums have no order of their own puts the
    /// recorded bits in the place of such as are within their rounding.
    std::string nearness = "bit for bit";
};

/// The recorded bits where a value is as near to the recorded one, else its own.
[[nodiscard]] std::vector<std::uint32_t> bits_within(const std::vector<float>& recorded,
                                                     const std::vector<float>& made, double distance);

struct Explanation {
    std::string line;
    bool complete = false; ///< it makes all that is wrong, and nothing else
};

/// The mistakes that explain most of the wrong values, the best first. A mistake may have been made by one
/// rank alone.
[[nodiscard]] std::vector<Explanation> explanations(const Hypotheses& hypotheses);
/// Their lines.
[[nodiscard]] std::vector<std::string> what_fits(const Hypotheses& hypotheses);

/// Of how many parameters a run with so many steps (times ranks) takes seconds with each mistake; 0: of
/// none.
[[nodiscard]] std::int64_t most_parameters_to_try(std::int64_t rank_steps);

/// Why a run with so many steps (times ranks) and parameters is too large for it to take seconds; empty
/// where it is not.
[[nodiscard]] std::string too_large_to_try(std::int64_t parameters, std::int64_t rank_steps);

} // namespace truestep::gate

template <class Values>
std::vector<std::uint32_t> truestep::gate::seen_bits(const Values& values) {
    std::vector<std::uint32_t> result;
    result.reserve(values.size());
    for (const auto value : values)
        if constexpr (sizeof(value) == sizeof(std::uint32_t))
            result.push_back(std::bit_cast<std::uint32_t>(value));
        else
            result.push_back(value);
    return result;
}

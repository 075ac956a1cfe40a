#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

// Finds the known bugs that make what was recorded. It works for any system that can show what a run holds
// after one step.

namespace truestep::gate {

/// Results as bits: for each result one vector per rank; empty if not available.
using SeenBits = std::vector<std::vector<std::uint32_t>>;

/// The bits of floats, and the bytes of a mask.
template <class Values>
[[nodiscard]] std::vector<std::uint32_t> seen_bits(const Values& values);

struct Hypotheses {
    std::vector<KnownBug> known_bugs; ///< those of device code are not tried
    int ranks = 1;
    SeenBits recorded;
    /// Makes the results of a run with that known bug; 0 has none. Nothing if the run does not get that
    /// far.
    std::function<std::optional<SeenBits>(int number)> run;
    /// How near counts as the same. A system whose sums have no fixed order uses the recorded bits in place
    /// of values within their rounding.
    std::string nearness = "bit for bit";
};

/// The recorded bits where a value lies within the distance, else its own.
[[nodiscard]] std::vector<std::uint32_t> bits_within(const std::vector<float>& recorded,
                                                     const std::vector<float>& made, double distance);

struct Explanation {
    std::string line;
    bool complete = false; ///< it makes all wrong values, and changes no right ones
};

/// The known bugs that explain most of the wrong values, the best first. A bug may be on one rank only.
[[nodiscard]] std::vector<Explanation> explanations(const Hypotheses& hypotheses);
/// The lines of these explanations.
[[nodiscard]] std::vector<std::string> what_fits(const Hypotheses& hypotheses);

/// The most parameters with which trying each known bug takes seconds, by steps times ranks; 0: none.
[[nodiscard]] std::int64_t most_parameters_to_try(std::int64_t rank_steps);

/// Why a run is too large to be tried in seconds, by its parameters and its steps times ranks; empty if it
/// is not.
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

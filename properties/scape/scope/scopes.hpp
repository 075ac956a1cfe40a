// The scopes: sets of small problems that are enumerated.
#pragma once

#include <string>
#include <vector>

#include "small_scope_harness.hpp"

namespace truestep::properties::scape::scope {

/// The problems of a scope, and what it proves if none fails.
struct Scope {
    std::string name;
    std::string proves;     ///< "proved for all: ...", or what was drawn
    std::string stands_for; ///< the further problems that its cases represent, or empty
    std::vector<Task> tasks;
};

/// How much is enumerated: for seconds, or for minutes.
enum class Extent : std::uint8_t { quick, all };

// scopes_whole.cpp: models of at most three parameters, each on its own.
[[nodiscard]] Scope settings_by_hand();
[[nodiscard]] std::vector<Scope> whole_problems(Extent extent);
[[nodiscard]] Scope drawn_whole(Extent extent);

// scopes_batched.cpp: many segments in one model.
[[nodiscard]] Scope segments(Extent extent);
[[nodiscard]] Scope coordinates(Extent extent);
[[nodiscard]] Scope choices(Extent extent);
[[nodiscard]] Scope drawn_segments(Extent extent);

/// All scopes, in the order in which they are reported.
[[nodiscard]] std::vector<Scope> all_scopes(Extent extent);

// Shared by the scopes.

/// 7^exponent.
[[nodiscard]] constexpr std::uint64_t power_of_values(int exponent) {
    std::uint64_t result = 1;
    for (; exponent > 0; --exponent)
        result *= values.size();
    return result;
}

/// The digits of a number in base 7, lowest first, as values.
class Digits {
  public:
    explicit Digits(std::uint64_t number) : left_(number) {}
    [[nodiscard]] std::size_t digit() {
        const auto result = static_cast<std::size_t>(left_ % values.size());
        left_ /= values.size();
        return result;
    }
    [[nodiscard]] float value() { return values[digit()]; }

  private:
    std::uint64_t left_;
};

/// The same sequence on every machine (splitmix64).
class Drawn {
  public:
    explicit Drawn(std::uint64_t seed) : state_(seed) {}
    [[nodiscard]] std::uint64_t number(std::uint64_t below) {
        state_ += 0x9e37'79b9'7f4a'7c15U;
        std::uint64_t x = state_;
        x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
        x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11ebU;
        return (x ^ (x >> 31U)) % below;
    }
    [[nodiscard]] float value() { return values[number(values.size())]; }

  private:
    std::uint64_t state_;
};

constexpr std::array<problem::BiasCorrection, 3> corrections{
    problem::BiasCorrection::none, problem::BiasCorrection::adam, problem::BiasCorrection::momentum};

/// Two pairs of betas: one that is exact in fp32, and a usual one that rounds.
[[nodiscard]] properties::scape::Case settings_with(problem::BiasCorrection correction, bool exact);

} // namespace truestep::properties::scape::scope

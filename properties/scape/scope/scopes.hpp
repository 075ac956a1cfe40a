#pragma once

#include <string>
#include <vector>

#include "lab.hpp"

namespace truestep::properties::scape::scope {

/// What is enumerated, and what it proves if no case fails.
struct Scope {
    std::string name;
    std::string proves;     ///< "proved for all: ...", or what was drawn
    std::string stands_for; ///< the problems that its cases stand for, beside themselves; or empty
    std::vector<Task> tasks;
};

/// How much of it: some seconds, or minutes.
enum class Extent : std::uint8_t { quick, all };

// scopes_whole.cpp: models of at most three parameters, each by itself.
[[nodiscard]] Scope settings_by_hand();
[[nodiscard]] std::vector<Scope> whole_problems(Extent extent);
[[nodiscard]] Scope drawn_whole(Extent extent);

// scopes_batched.cpp: segments, many in one model.
[[nodiscard]] Scope segments(Extent extent);
[[nodiscard]] Scope coordinates(Extent extent);
[[nodiscard]] Scope choices(Extent extent);
[[nodiscard]] Scope drawn_segments(Extent extent);

/// Of all of them, in the order in which they are told.
[[nodiscard]] std::vector<Scope> all_scopes(Extent extent);

// What they share.

/// 7^exponent.
[[nodiscard]] constexpr std::uint64_t power_of_values(int exponent) {
    std::uint64_t result = 1;
    for (; exponent > 0; --exponent)
        result *= values.size();
    return result;
}

/// The digits of a number to the base of 7, lowest first, as values.
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

/// A sequence that is the same everywhere (splitmix64).
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

/// Two pairs of betas: what is exact in fp32, and what is usual and rounds.
[[nodiscard]] properties::scape::Case settings_with(problem::BiasCorrection correction, bool exact);

} // namespace truestep::properties::scape::scope

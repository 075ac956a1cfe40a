// A tiny problem of SCAPE as one line of text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <truestep/properties/scape/case.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape::scope {

using problem::Index;

constexpr std::array<float, 7> values{-2.0F, -1.0F, -0.5F, 0.0F, 0.5F, 1.0F, 2.0F};
constexpr int steps = 2;

/// delta(1), delta(2) and delta(3), since two steps make three masks.
using Densities = std::array<double, 3>;

/// A density with which a segment of 3 has this k. A segment of 2 has k = 1 for the first two.
[[nodiscard]] double density_for(int k);

/// A whole problem. Its settings are a case of the gate, whose own gradients and parameters are not used.
struct TinyProblem {
    properties::scape::Case settings;
    Densities densities{1.0, 1.0, 1.0};
    std::vector<float> parameters;
    std::array<Gradients, steps> gradients;
};

/// One line of text, "tensors=a:2,workers=2|1,0.5,0.5|0.5,-2|1,2/0,-1|...": settings, densities,
/// parameters, and each step's gradients with a slash between ranks.
[[nodiscard]] std::string text(const TinyProblem& problem);
/// Parses such a line. Throws truestep::Error.
[[nodiscard]] TinyProblem parse_tiny(const std::string& text);

[[nodiscard]] Scenario scenario_of(const TinyProblem& problem);

/// The scenario of two steps over any segments.
[[nodiscard]] Scenario two_steps(problem::Problem problem, std::vector<problem::Range> ranges,
                                 const Densities& densities, std::vector<float> parameters,
                                 std::array<Gradients, steps> gradients);

/// Where two runs first differ.
struct Difference {
    Index coordinate = 0; ///< -1: none can be named
    std::string text;
};

/// Compares every bit that every rank shows after each step, and those of the coming mask.
[[nodiscard]] std::optional<Difference> difference(const RunRecording& expected,
                                                   const RunRecording& actual);

} // namespace truestep::properties::scape::scope

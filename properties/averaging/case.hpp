#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/gate/case_spec.hpp>
#include <truestep/problem/data.hpp>

namespace truestep::properties::averaging {

using problem::Index;

/// A few small numbers, from which parameters and gradients follow: a case is one line of text, and any
/// rank can make its own part.
struct Case {
    Index local_steps = 1; ///< in a round
    Index workers = 1;
    Index size = 1; ///< parameters
    Index rounds = 1;
    problem::DataClass data = problem::DataClass::dyadic;
    Index seed = 0;
};

/// "local_steps=2,workers=3,size=4,rounds=1,seed=7,data=normal".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

[[nodiscard]] std::vector<float> parameters_of(const Case& run);
/// A worker's gradients of one round, one vector a local step.
[[nodiscard]] std::vector<std::vector<float>> gradients_of(const Case& run, int worker, Index round);
/// On dyadic data a power of two: numbers that a reader can follow. Else every product rounds.
[[nodiscard]] float learning_rate_of(const Case& run);

} // namespace truestep::properties::averaging

#pragma once

#include <functional>
#include <vector>

#include <truestep/distributed/element.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::gpu::bench {

using problem::Index;

enum class Dense { adams, adamw };

/// What a few steps are taken from, and what takes them: returns the parameters after the last.
struct DenseSteps {
    Dense kind;
    std::vector<distributed::Scalars> scalars;
    std::vector<std::vector<float>> gradients;
    std::vector<float> parameters;
};
using TakeDenseSteps = std::function<std::vector<float>(const DenseSteps&)>;

/// Three steps of `take` beside distributed::scape::AdamS, or the peer AdamW, of one rank: how many
/// parameters have other bits after the last.
[[nodiscard]] Index wrong_parameters(Dense kind, Index size, const TakeDenseSteps& take);

} // namespace truestep::gpu::bench

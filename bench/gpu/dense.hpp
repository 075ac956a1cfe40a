#pragma once

#include <functional>
#include <vector>

#include <truestep/distributed/element.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::gpu::bench {

using problem::Index;

enum class Dense { adams, adamw };

/// The inputs of a few steps, and a function that takes them and returns the final parameters.
struct DenseSteps {
    Dense kind;
    std::vector<distributed::Scalars> scalars;
    std::vector<std::vector<float>> gradients;
    std::vector<float> parameters;
};
using TakeDenseSteps = std::function<std::vector<float>(const DenseSteps&)>;

/// Compares three steps of `take` on one rank with distributed::scape::AdamS, or with the peer
/// AdamW. Returns how many parameters have other bits at the end.
[[nodiscard]] Index wrong_parameters(Dense kind, Index size, const TakeDenseSteps& take);

} // namespace truestep::gpu::bench

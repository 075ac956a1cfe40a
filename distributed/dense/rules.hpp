// The rules (sections 36 and 37), on what one rank owns.
#pragma once

#include <functional>
#include <vector>

#include <truestep/distributed/dense/state.hpp>

namespace truestep::distributed::dense {

/// The clipped mean of a piece, and its state, which is updated in place.
struct Vectors {
    const float* g = nullptr;
    float* w = nullptr;
    float* m = nullptr;
    float* v = nullptr;
};

/// Step t of an elementwise rule on the coordinates [begin, end) of a piece.
using ElementwiseStep = std::function<void(Index begin, Index end, const Vectors& vectors)>;
[[nodiscard]] ElementwiseStep elementwise_step(const Group& group, double rate, Index t);

/// A step of Muon on a whole matrix.
void muon_step(const Group& group, double rate, const std::vector<Index>& shape, const Vectors& vectors);

/// The factor by which a mean of that norm is clipped.
[[nodiscard]] float clip_factor(double clip_norm, double norm);

} // namespace truestep::distributed::dense

// The rules (sections 36 and 37), on what one rank owns.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include <truestep/distributed/dense/state.hpp>
#include <truestep/distributed/element.hpp>

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

/// The scalars of Adam and AdamW in step t.
[[nodiscard]] Scalars adam_scalars(const Group& group, double rate, Index t);
/// Coefficients of the polynomial of iteration t, from 0 on, and what a matrix of that norm is divided by
/// before.
[[nodiscard]] std::array<double, 3> polynomial(const Group& group, int t);
[[nodiscard]] double first_scale(const Group& group, double norm);

/// A step of Muon on a whole matrix.
void muon_step(const Group& group, double rate, const std::vector<Index>& shape, const Vectors& vectors);

/// The factor by which a mean of that norm is clipped.
[[nodiscard]] float clip_factor(double clip_norm, double norm);

} // namespace truestep::distributed::dense

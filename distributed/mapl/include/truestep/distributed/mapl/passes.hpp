#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

using namespace problem::mapl;

using Floats = std::vector<float>;
using Id = std::uint32_t;

/// What one side of a boundary computes with, row after row.
struct SideMatrices {
    std::size_t width;
    std::size_t rank;
    std::size_t vocabulary;
    const float* a;                ///< A, D x r
    const float* anchor = nullptr; ///< this side's E, V x r; nullptr without anchors
    const float* rows = nullptr;   ///< this side's P, r x D; nullptr without anchors
};

// What section 22 does with one micro-batch of N tokens: without messages, and without checks. Ids are
// below V. `part` is this side's part of the gradient of A, D x r, and `anchor_gradient` that of its E, V x
// r, or nullptr where nobody wants it: both are added to.

/// Q = X - E[ids] P, N x D, and Z = Q A, N x r, in one pass over X. `q` may be `x` itself, and nullptr
/// without anchors, where nobody keeps Q. A value of X that is not finite leaves none of its row of Z
/// finite.
void compress(const SideMatrices& side, std::span<const Id> ids, const float* x, float* q, float* z);
/// dZ = G A. The same of what is not finite.
void compress_gradient(const SideMatrices& side, std::size_t tokens, const float* g, float* dz);
/// Xhat, N x D.
void decompress(const SideMatrices& side, std::span<const Id> ids, const float* z, float* xhat);
/// dX = dZ A^T.
void decompress_gradient(const SideMatrices& side, std::size_t tokens, const float* dz, float* dx);
void add_senders(const SideMatrices& side, std::span<const Id> ids, const float* q, const float* dz,
                 const float* dx, float* part, float* anchor_gradient);
void add_receivers(const SideMatrices& side, std::span<const Id> ids, const float* z, const float* g,
                   float* part, float* anchor_gradient);

/// Z or dZ to what of it travels (section 23), in place. False if one is not finite, or then is not.
[[nodiscard]] bool round_to_payload(Payload payload, std::span<float> values);

/// Of A, both sides' parts together.
[[nodiscard]] Floats whole_gradient(std::span<const float> sender, std::span<const float> receiver);

/// Whether all are finite.
[[nodiscard]] bool all_finite(std::span<const float> values);

} // namespace truestep::distributed::mapl

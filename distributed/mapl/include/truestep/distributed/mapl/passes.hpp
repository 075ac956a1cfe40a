// The passes of one side of a MAPL boundary over its matrices, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

using namespace problem::mapl;
using problem::mapl::Settings; // not that of <truestep/optimizer.hpp>

using Floats = std::vector<float>;
using Id = std::uint32_t;

/// The matrices of one side of a boundary, row by row.
struct SideMatrices {
    std::size_t width;
    std::size_t rank;
    std::size_t vocabulary;
    const float* a;                ///< A, D x r
    const float* anchor = nullptr; ///< this side's E, V x r; nullptr without anchors
    const float* rows = nullptr;   ///< this side's P, r x D; nullptr without anchors
};

// The work of section 22 on one micro-batch of N tokens, without messages and checks. Ids are below
// V. `part` is this side's part of the gradient of A, D x r, and `anchor_gradient` that of its E, V
// x r, or nullptr if it is not needed: both are added to.

/// Q = X - E[ids] P, N x D, and Z = Q A, N x r, in one pass over X. `q` may be `x` itself, or
/// nullptr without anchors if Q is not kept. A value of X that is not finite makes its whole row of
/// Z non-finite.
void compress(const SideMatrices& side, std::span<const Id> ids, const float* x, float* q, float* z);
/// dZ = G A. Non-finite values spread likewise.
void compress_gradient(const SideMatrices& side, std::size_t tokens, const float* g, float* dz);
/// Xhat, N x D.
void decompress(const SideMatrices& side, std::span<const Id> ids, const float* z, float* xhat);
/// dX = dZ A^T.
void decompress_gradient(const SideMatrices& side, std::size_t tokens, const float* dz, float* dx);
void add_senders(const SideMatrices& side, std::span<const Id> ids, const float* q, const float* dz,
                 const float* dx, float* part, float* anchor_gradient);
void add_receivers(const SideMatrices& side, std::span<const Id> ids, const float* z, const float* g,
                   float* part, float* anchor_gradient);

/// Rounds Z or dZ in place to what travels (section 23). False if a value is not finite, or becomes
/// so.
[[nodiscard]] bool round_to_payload(Payload payload, std::span<float> values);

/// The gradient of A from both sides' parts.
[[nodiscard]] Floats whole_gradient(std::span<const float> sender, std::span<const float> receiver);

/// Whether all values are finite.
[[nodiscard]] bool all_finite(std::span<const float> values);

} // namespace truestep::distributed::mapl

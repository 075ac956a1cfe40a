// Runs MAPL's passes over a micro-batch: compression, and the gradients of A and the anchors.
#include <truestep/distributed/mapl/passes.hpp>

#include <algorithm>
#include <bit>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed::mapl {

namespace {

/// Adds E[ids] P, N x D, times `sign`, to `to`.
void add_anchor(const SideMatrices& side, float sign, std::span<const Id> ids, float* to) {
    if (side.anchor == nullptr || ids.empty())
        return;
    Floats rows(ids.size() * side.rank);
    for (std::size_t token = 0; token < ids.size(); ++token)
        std::copy_n(side.anchor + ids[token] * side.rank, side.rank, rows.data() + token * side.rank);
    multiply({.rows = ids.size(), .columns = side.width, .inner = side.rank, .factor = sign, .keep = true},
             rows.data(), side.rows, to);
}

/// Adds values P^T, N x r, times `sign`, to the gradient's rows of the ids, in token order.
void add_to_anchor(const SideMatrices& side, float sign, std::span<const Id> ids, const float* values,
                   float* gradient) {
    if (gradient == nullptr || ids.empty())
        return;
    Floats rows(ids.size() * side.rank);
    multiply({.rows = ids.size(),
              .columns = side.rank,
              .inner = side.width,
              .second_transposed = true,
              .factor = sign},
             values, side.rows, rows.data());
    for (std::size_t token = 0; token < ids.size(); ++token)
        for (std::size_t j = 0; j < side.rank; ++j)
            gradient[ids[token] * side.rank + j] += rows[token * side.rank + j];
}

/// Adds values^T small, D x r, to `part`.
void add_to_part(const SideMatrices& side, std::size_t tokens, const float* values, const float* small,
                 float* part) {
    multiply(
        {.rows = side.width, .columns = side.rank, .inner = tokens, .first_transposed = true, .keep = true},
        values, small, part);
}

/// N x r times A^T.
void expand(const SideMatrices& side, std::size_t tokens, const float* values, float* to) {
    multiply({.rows = tokens, .columns = side.width, .inner = side.rank, .second_transposed = true}, values,
             side.a, to);
}

/// This many rows are copied, freed of the anchor and compressed while they are in the cache, and
/// still suffice for an efficient product.
constexpr std::size_t rows_at_once = problem::tunable<std::size_t>("compressed_rows");

} // namespace

void compress(const SideMatrices& side, std::span<const Id> ids, const float* x, float* q, float* z) {
    for (std::size_t first = 0; first < ids.size(); first += rows_at_once) {
        const auto some = ids.subspan(first, std::min(rows_at_once, ids.size() - first));
        const float* from = x + first * side.width;
        if (q != nullptr) {
            float* kept = q + first * side.width;
            if (kept != from)
                std::copy_n(from, some.size() * side.width, kept);
            add_anchor(side, -1.0F, some, kept);
            from = kept;
        }
        compress_gradient(side, some.size(), from, z + first * side.rank);
    }
}

void compress_gradient(const SideMatrices& side, std::size_t tokens, const float* g, float* dz) {
    multiply({.rows = tokens, .columns = side.rank, .inner = side.width}, g, side.a, dz);
}

void decompress(const SideMatrices& side, std::span<const Id> ids, const float* z, float* xhat) {
    expand(side, ids.size(), z, xhat);
    add_anchor(side, 1.0F, ids, xhat);
}

void decompress_gradient(const SideMatrices& side, std::size_t tokens, const float* dz, float* dx) {
    expand(side, tokens, dz, dx);
}

void add_senders(const SideMatrices& side, std::span<const Id> ids, const float* q, const float* dz,
                 const float* dx, float* part, float* anchor_gradient) {
    add_to_anchor(side, -1.0F, ids, dx, anchor_gradient);
    add_to_part(side, ids.size(), q, dz, part);
}

void add_receivers(const SideMatrices& side, std::span<const Id> ids, const float* z, const float* g,
                   float* part, float* anchor_gradient) {
    add_to_anchor(side, 1.0F, ids, g, anchor_gradient);
    add_to_part(side, ids.size(), g, z, part);
}

Floats whole_gradient(std::span<const float> sender, std::span<const float> receiver) {
    Floats gradient(sender.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = sender[i] + receiver[i];
    return gradient;
}

bool all_finite(std::span<const float> values) {
    // Without an early exit, and in whole words, so that it is vectorized.
    constexpr std::uint32_t exponent = 0x7f800000;
    std::uint32_t found = 0;
    for (const float value : values)
        found |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent ? 1U : 0U;
    return found == 0;
}

} // namespace truestep::distributed::mapl

// Computes Muon's step of a whole matrix: momentum, orthogonalization and update.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <truestep/distributed/element.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>

#include <truestep/distributed/dense/rules.hpp>

namespace truestep::distributed::dense {

namespace {

using Floats = std::vector<float>;
using mapl::multiply;

/// Rounds to bf16 where the iteration is kept in it.
void keep(Iteration iteration, Floats& values) {
    if (iteration == Iteration::bf16)
        for (float& value : values)
            value = element::from_bf16(element::to_bf16(value));
}

/// A positive double rounded once. The fp32 on the way is rounded to odd, so that it is no tie unless
/// the double is one.
float nearest_bf16(double value) {
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (static_cast<double>(std::bit_cast<float>(bits)) > value)
        --bits;
    if (static_cast<double>(std::bit_cast<float>(bits)) != value)
        bits |= 1U;
    return element::from_bf16(element::to_bf16(std::bit_cast<float>(bits)));
}

/// Replaces a matrix by its orthogonalization. The Gram matrix is that of the shorter side, so a tall
/// matrix needs no transposition.
void orthogonalize(const Group& group, std::size_t rows, std::size_t columns, Floats& x) {
    keep(group.iteration, x);
    double squares = 0.0;
    for (const float value : x)
        squares += static_cast<double>(value) * static_cast<double>(value);
    const double norm = std::sqrt(squares);
    const double scale = first_scale(group, norm);
    for (float& value : x)
        value = static_cast<float>(static_cast<double>(value) / scale);
    keep(group.iteration, x);
    const bool tall = rows > columns;
    const std::size_t side = std::min(rows, columns);
    Floats gram(side * side);
    Floats inner(side * side);
    Floats next(x.size());
    for (int t = 0; t < group.iterations; ++t) {
        const auto [a, b, c] = polynomial(group, t);
        multiply({.rows = side,
                  .columns = side,
                  .inner = std::max(rows, columns),
                  .first_transposed = tall,
                  .second_transposed = !tall},
                 x.data(), x.data(), gram.data());
        keep(group.iteration, gram);
        std::ranges::transform(gram, inner.begin(),
                               [by = static_cast<float>(b)](float value) { return by * value; });
        multiply(
            {.rows = side, .columns = side, .inner = side, .factor = static_cast<float>(c), .keep = true},
            gram.data(), gram.data(), inner.data());
        keep(group.iteration, inner);
        std::ranges::transform(x, next.begin(),
                               [by = static_cast<float>(a)](float value) { return by * value; });
        multiply({.rows = rows, .columns = columns, .inner = side, .keep = true},
                 tall ? x.data() : inner.data(), tall ? inner.data() : x.data(), next.data());
        keep(group.iteration, next);
        x.swap(next);
    }
}

} // namespace

std::array<double, 3> polynomial(const Group& group, int t) {
    if (group.orthogonalization == Orthogonalization::newton_schulz)
        return group.coefficients;
    const auto at = static_cast<std::size_t>(t);
    if (at >= mapl::polar_polynomials.size())
        return mapl::endless_polynomial;
    const auto& [a, b, c] = mapl::polar_polynomials[at];
    return {a / 1.01, b / std::pow(1.01, 3), c / std::pow(1.01, 5)};
}

double first_scale(const Group& group, double norm) {
    const double scale = group.orthogonalization == Orthogonalization::newton_schulz
                             ? std::max(norm, group.epsilon)
                             : 1.01 * norm + group.epsilon;
    return group.iteration == Iteration::bf16 ? static_cast<double>(nearest_bf16(scale)) : scale;
}

void muon_step(const Group& group, double rate, const std::vector<Index>& shape, const Vectors& vectors) {
    const auto mu = static_cast<float>(group.momentum);
    const auto rest = static_cast<float>(1.0 - group.momentum);
    Floats x(static_cast<std::size_t>(shape[0] * shape[1]));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float g = vectors.g[i];
        const float m = (mu * vectors.m[i]) + (rest * g);
        vectors.m[i] = m;
        x[i] = group.nesterov ? (mu * m) + (rest * g) : m;
    }
    orthogonalize(group, static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), x);
    const auto decay = static_cast<float>(1.0 - rate * group.weight_decay);
    const auto by = static_cast<float>(rate * rate_factor(group.scale, shape[0], shape[1]));
    for (std::size_t i = 0; i < x.size(); ++i)
        vectors.w[i] = (vectors.w[i] * decay) - (by * x[i]);
}

} // namespace truestep::distributed::dense

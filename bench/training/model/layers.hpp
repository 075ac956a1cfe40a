#pragma once

// RMSNorm, causal attention and squared ReLU, forward and backward.

#include <algorithm>
#include <cmath>

#include "products.hpp"

namespace truestep::training {
namespace {

template <class Scalar>
using Row = Eigen::Array<Scalar, 1, Eigen::Dynamic>;

template <class Scalar>
Eigen::Map<Row<Scalar>> row(Scalar* values, Count size) {
    return {values, size};
}
template <class Scalar>
Eigen::Map<const Row<Scalar>> row(const Scalar* values, Count size) {
    return {values, size};
}

template <class Scalar>
void norm(const Sizes& sizes, const Scalar* x, const Scalar* gain, Scalar* inverse, Scalar* y) {
    constexpr Scalar epsilon = Scalar(1e-5);
    const Count C = sizes.width;
    for (Count r = 0; r < sizes.rows(); ++r) {
        const auto in = row(x + r * C, C);
        inverse[r] = Scalar(1) / std::sqrt(in.square().sum() / static_cast<Scalar>(C) + epsilon);
        row(y + r * C, C) = in * inverse[r] * row(gain, C);
    }
}

/// Adds to dx, and to dgain.
template <class Scalar>
void norm_backward(const Sizes& sizes, const Scalar* x, const Scalar* gain, const Scalar* inverse,
                   const Scalar* dy, Scalar* dx, Scalar* dgain) {
    const Count C = sizes.width;
    const auto g = row(gain, C);
    for (Count r = 0; r < sizes.rows(); ++r) {
        const auto in = row(x + r * C, C);
        const auto d = row(dy + r * C, C);
        const Scalar scale = inverse[r];
        const Scalar along = (d * g * in).sum() * scale * scale * scale / static_cast<Scalar>(C);
        row(dx + r * C, C) += d * g * scale - in * along;
        row(dgain, C) += d * in * scale;
    }
}

/// The place of one head of one window among all.
template <class Scalar>
struct Head {
    Head(const Sizes& sizes, Count window, Count head)
        : context(sizes.context), size(sizes.width / sizes.heads), width(sizes.width),
          scale(Scalar(1) / std::sqrt(static_cast<Scalar>(size))), first(window * sizes.context),
          column(head * size), square((window * sizes.heads + head) * context * context) {}

    /// 0: queries, 1: keys, 2: values.
    template <class Value>
    [[nodiscard]] MatrixView<Value> part(Value* qkv, Count which) const {
        return {qkv + (3 * first + which) * width + column, context, size, 3 * width};
    }
    template <class Value>
    [[nodiscard]] MatrixView<Value> mixed(Value* values) const {
        return {values + first * width + column, context, size, width};
    }

    Count context;
    Count size;
    Count width;
    Scalar scale;
    Count first;  ///< row
    Count column; ///< in a row
    Count square;
};

/// Queries are taken in groups of this size, with the keys up to the last of them: half of all
/// products would be with later keys.
constexpr Count queries = 32;

template <class Use>
void for_queries(Count context, const Use& use) {
    for (Count begin = 0; begin < context; begin += queries)
        use(begin, std::min(queries, context - begin));
}

/// The weights of these queries: rows of `keys` values, `context` apart.
template <class Scalar>
MatrixView<Scalar> weights_of(const Head<Scalar>& head, Scalar* square, Count begin, Count count) {
    return {square + begin * head.context, count, begin + count, head.context};
}

template <class Scalar>
void attend(const Sizes& sizes, const Scalar* qkv, Scalar* all_weights, Scalar* all_mixed) {
    for (Count window = 0; window < sizes.windows; ++window)
        for (Count h = 0; h < sizes.heads; ++h) {
            const Head<Scalar> head(sizes, window, h);
            const auto K = head.part(qkv, 1);
            const auto V = head.part(qkv, 2);
            for_queries(head.context, [&](Count begin, Count count) {
                const MatrixView<Scalar> weights =
                    weights_of(head, all_weights + head.square, begin, count);
                const MatrixView<const Scalar> Q = head.part(qkv, 0).from(begin, count);
                multiply_across(weights, Q, K.upto(weights.columns), Keep::no, head.scale);
                for (Count i = 0; i < count; ++i) {
                    Scalar* const line = weights.values + i * weights.stride;
                    auto seen = row(line, begin + i + 1);
                    seen = (seen - seen.maxCoeff()).exp();
                    seen *= Scalar(1) / seen.sum();
                    std::fill(line + begin + i + 1, line + weights.columns, Scalar(0));
                }
                multiply(head.mixed(all_mixed).from(begin, count), weights.constant(),
                         V.upto(weights.columns));
            });
        }
}

/// Overwrites dqkv. `dweights` is room for one head.
template <class Scalar>
void attend_backward(const Sizes& sizes, const Scalar* qkv, const Scalar* all_weights,
                     const Scalar* all_dmixed, Scalar* dqkv, Scalar* dweights) {
    std::fill(dqkv, dqkv + 3 * sizes.rows() * sizes.width, Scalar(0));
    for (Count window = 0; window < sizes.windows; ++window)
        for (Count h = 0; h < sizes.heads; ++h) {
            const Head<Scalar> head(sizes, window, h);
            const auto K = head.part(qkv, 1);
            const auto V = head.part(qkv, 2);
            for_queries(head.context, [&](Count begin, Count count) {
                const MatrixView<Scalar> d = weights_of(head, dweights, begin, count);
                const Count keys = d.columns;
                const MatrixView<const Scalar> weights{all_weights + head.square + begin * head.context,
                                                       count, keys, head.context};
                const MatrixView<const Scalar> dmixed = head.mixed(all_dmixed).from(begin, count);
                multiply_across(d, dmixed, V.upto(keys));
                multiply_along(head.part(dqkv, 2).upto(keys), weights, dmixed, Keep::yes);
                for (Count i = 0; i < count; ++i) {
                    auto of_query = row(d.values + i * d.stride, keys);
                    const auto w = row(weights.values + i * weights.stride, keys);
                    const Scalar mean = (of_query * w).sum();
                    of_query = w * (of_query - mean);
                }
                multiply(head.part(dqkv, 0).from(begin, count), d.constant(), K.upto(keys), Keep::no,
                         head.scale);
                multiply_along(head.part(dqkv, 1).upto(keys), d.constant(),
                               head.part(qkv, 0).from(begin, count), Keep::yes, head.scale);
            });
        }
}

} // namespace
} // namespace truestep::training

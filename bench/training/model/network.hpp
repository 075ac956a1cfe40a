#pragma once

// The whole network, forward and backward, over the layers. Every file that includes this is
// compiled for one instruction set, with its own name for Eigen's namespace (avx2.cpp).

#include <cmath>
#include <utility>

#include "layers.hpp"

namespace truestep::training {
namespace {

template <class Scalar>
class Network {
  public:
    Network(const Sizes& sizes, const Scalar* parameters, Scalar* room, StageBoundary<Scalar>* between)
        : sizes_(sizes), rows_(sizes.rows()), C_(sizes.width), tensors_(sizes, parameters),
          room_(sizes, room), between_(between) {}

    /// Leaves the loss's derivatives in place of the logits.
    double forward(const std::uint8_t* inputs, const std::uint8_t* targets) {
        embed(inputs);
        for (Count layer = 0; layer < sizes_.layers; ++layer) {
            block_forward(tensors_.block(layer), room_.block(layer), stream(layer + 1));
            if (may_be_cut_behind(layer))
                between_->forward(static_cast<std::size_t>(layer), stream(layer + 1));
        }
        norm(sizes_, room_.last, tensors_.norm(), room_.last_inverse, room_.out);
        multiply_across(wide(room_.logits, sizes_.symbols), wide(constant(room_.out), C_),
                        matrix(tensors_.token(), sizes_.symbols, C_));
        double loss = 0;
        for (Count r = 0; r < rows_; ++r)
            loss += loss_of_row(r, targets[r]);
        return loss / static_cast<double>(rows_);
    }

    void backward(const std::uint8_t* inputs, Scalar* gradient) {
        const Tensors<Scalar> to(sizes_, gradient);
        const auto dlogits = wide(constant(room_.logits), sizes_.symbols);
        multiply_along(matrix(to.token(), sizes_.symbols, C_), dlogits, wide(constant(room_.out), C_));
        multiply(wide(room_.dwide, C_), dlogits, matrix(tensors_.token(), sizes_.symbols, C_));
        row(room_.dx, rows_ * C_).setZero();
        row(to.norm(), C_).setZero();
        norm_backward(sizes_, room_.last, tensors_.norm(), room_.last_inverse, room_.dwide, room_.dx,
                      to.norm());
        for (Count layer = sizes_.layers; layer-- > 0;) {
            if (may_be_cut_behind(layer))
                between_->backward(static_cast<std::size_t>(layer), room_.dx);
            mlp_backward(tensors_.block(layer), room_.block(layer), to.block(layer));
            attention_backward(tensors_.block(layer), room_.block(layer), to.block(layer));
        }
        row(to.position(), sizes_.context * C_).setZero();
        for (Count r = 0; r < rows_; ++r) {
            const auto d = row(constant(room_.dx) + r * C_, C_);
            row(to.token() + inputs[r] * C_, C_) += d;
            row(to.position() + r % sizes_.context * C_, C_) += d;
        }
    }

  private:
    using Weights = typename Tensors<const Scalar>::Block;
    using Gradients = typename Tensors<Scalar>::Block;
    using BlockValues = typename Activations<Scalar>::Block;

    template <class Value>
    [[nodiscard]] MatrixView<Value> wide(Value* values, Count columns) const {
        return matrix(values, rows_, columns);
    }
    static const Scalar* constant(const Scalar* values) { return values; }
    /// The input of this block, or the output of the last one.
    [[nodiscard]] Scalar* stream(Count layer) const {
        return layer == sizes_.layers ? room_.last : room_.block(layer).x;
    }

    /// No block needs its own output again, so `between` may change it in place.
    [[nodiscard]] bool may_be_cut_behind(Count layer) const {
        return between_ != nullptr && layer + 1 < sizes_.layers;
    }

    void embed(const std::uint8_t* inputs) {
        for (Count r = 0; r < rows_; ++r)
            row(stream(0) + r * C_, C_) = row(tensors_.token() + inputs[r] * C_, C_) +
                                          row(tensors_.position() + r % sizes_.context * C_, C_);
    }

    void block_forward(const Weights& w, const BlockValues& kept, Scalar* next) {
        const Count size = rows_ * C_;
        norm(sizes_, kept.x, w.attention_norm, kept.attention_inverse, kept.attention_in);
        multiply(wide(kept.qkv, 3 * C_), wide(constant(kept.attention_in), C_), matrix(w.qkv, C_, 3 * C_));
        attend(sizes_, constant(kept.qkv), kept.weights, kept.mixed);
        std::copy(kept.x, kept.x + size, kept.middle);
        multiply(wide(kept.middle, C_), wide(constant(kept.mixed), C_), matrix(w.projection, C_, C_),
                 Keep::yes);

        const Count H = mlp_factor * C_;
        norm(sizes_, kept.middle, w.mlp_norm, kept.mlp_inverse, kept.mlp_in);
        multiply(wide(kept.hidden, H), wide(constant(kept.mlp_in), C_), matrix(w.up, C_, H));
        row(kept.activated, rows_ * H) = row(constant(kept.hidden), rows_ * H).max(Scalar(0)).square();
        std::copy(kept.middle, kept.middle + size, next);
        multiply(wide(next, C_), wide(constant(kept.activated), H), matrix(w.down, H, C_), Keep::yes);
    }

    /// Returns -log softmax at the target, and replaces the row by its derivatives.
    double loss_of_row(Count r, Count target) {
        auto logits = row(room_.logits + r * sizes_.symbols, sizes_.symbols);
        const Scalar greatest = logits.maxCoeff();
        const Scalar right = logits[target] - greatest;
        logits = (logits - greatest).exp();
        const Scalar sum = logits.sum();
        const Scalar share = Scalar(1) / static_cast<Scalar>(rows_);
        logits *= share / sum;
        logits[target] -= share;
        return std::log(static_cast<double>(sum)) - static_cast<double>(right);
    }

    // On entry, dx has the derivatives by a part's output; on return, those by its input.

    void mlp_backward(const Weights& w, const BlockValues& kept, const Gradients& to) {
        const Count H = mlp_factor * C_;
        const auto dx = wide(constant(room_.dx), C_);
        const auto dhidden = wide(constant(room_.dhidden), H);
        multiply_along(matrix(to.down, H, C_), wide(constant(kept.activated), H), dx);
        multiply_across(wide(room_.dhidden, H), dx, matrix(w.down, H, C_));
        row(room_.dhidden, rows_ * H) *= Scalar(2) * row(constant(kept.hidden), rows_ * H).max(Scalar(0));
        multiply_along(matrix(to.up, C_, H), wide(constant(kept.mlp_in), C_), dhidden);
        multiply_across(wide(room_.dwide, C_), dhidden, matrix(w.up, C_, H));
        row(to.mlp_norm, C_).setZero();
        norm_backward(sizes_, kept.middle, w.mlp_norm, kept.mlp_inverse, room_.dwide, room_.dx,
                      to.mlp_norm);
    }

    void attention_backward(const Weights& w, const BlockValues& kept, const Gradients& to) {
        const auto dx = wide(constant(room_.dx), C_);
        multiply_along(matrix(to.projection, C_, C_), wide(constant(kept.mixed), C_), dx);
        multiply_across(wide(room_.dwide, C_), dx, matrix(w.projection, C_, C_));
        attend_backward(sizes_, constant(kept.qkv), constant(kept.weights), constant(room_.dwide),
                        room_.dqkv, room_.dweights);
        const auto dqkv = wide(constant(room_.dqkv), 3 * C_);
        multiply_along(matrix(to.qkv, C_, 3 * C_), wide(constant(kept.attention_in), C_), dqkv);
        multiply_across(wide(room_.dwide, C_), dqkv, matrix(w.qkv, C_, 3 * C_));
        row(to.attention_norm, C_).setZero();
        norm_backward(sizes_, kept.x, w.attention_norm, kept.attention_inverse, room_.dwide, room_.dx,
                      to.attention_norm);
    }

    const Sizes& sizes_;
    Count rows_;
    Count C_;
    Tensors<const Scalar> tensors_;
    Activations<Scalar> room_;
    StageBoundary<Scalar>* between_;
};

template <class Scalar>
std::size_t room_size(const Sizes& sizes) {
    return static_cast<std::size_t>(Activations<Scalar>(sizes, nullptr).end);
}

template <class Scalar>
double loss(const Sizes& sizes, const Scalar* parameters, const std::uint8_t* inputs,
            const std::uint8_t* targets, Scalar* room, StageBoundary<Scalar>* between) {
    return Network<Scalar>(sizes, parameters, room, between).forward(inputs, targets);
}

template <class Scalar>
double loss_and_gradient(const Sizes& sizes, const Scalar* parameters, const std::uint8_t* inputs,
                         const std::uint8_t* targets, Scalar* gradient, Scalar* room,
                         StageBoundary<Scalar>* between) {
    Network<Scalar> network(sizes, parameters, room, between);
    const double loss = network.forward(inputs, targets);
    network.backward(inputs, gradient);
    return loss;
}

template <class Scalar>
constexpr Passes<Scalar> passes{room_size<Scalar>, loss<Scalar>, loss_and_gradient<Scalar>};

} // namespace
} // namespace truestep::training

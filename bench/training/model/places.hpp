#pragma once

// The places of all data: in the flat vector of parameters, and in the working memory of a pass.
// Files for several instruction sets include this, so nothing has linkage: the linker would merge
// copies.

#include <utility>

#include "passes.hpp"

namespace truestep::training {
namespace {

constexpr Count mlp_factor = 4;

/// The tensors, in the order of layout_of().
template <class Value>
class Tensors {
  public:
    Tensors(const Sizes& sizes, Value* begin) : sizes_(sizes), begin_(begin) {}

    struct Block {
        Value* attention_norm;
        Value* qkv;
        Value* projection;
        Value* mlp_norm;
        Value* up;
        Value* down;
    };

    [[nodiscard]] Value* token() const { return begin_; }
    [[nodiscard]] Value* position() const { return begin_ + sizes_.symbols * sizes_.width; }
    [[nodiscard]] Block block(Count layer) const {
        const Count C = sizes_.width;
        Value* const at = position() + sizes_.context * C + layer * block_size();
        Value* const projection = at + C + 3 * C * C;
        Value* const up = projection + C * C + C;
        return {at, at + C, projection, up - C, up, up + mlp_factor * C * C};
    }
    [[nodiscard]] Value* norm() const { return block(sizes_.layers).attention_norm; }

  private:
    [[nodiscard]] Count block_size() const {
        return (4 + 2 * mlp_factor) * sizes_.width * sizes_.width + 2 * sizes_.width;
    }

    const Sizes& sizes_;
    Value* begin_;
};

/// The working memory: what the forward pass leaves for the backward pass, and that pass's own.
template <class Scalar>
class Activations {
  public:
    struct Block {
        Scalar* x;                 ///< rows x width: what comes in
        Scalar* attention_inverse; ///< rows: 1 / rms
        Scalar* attention_in;      ///< normed
        Scalar* qkv;
        Scalar* weights; ///< windows x heads x context x context: attention, after the softmax
        Scalar* mixed;   ///< of the heads
        Scalar* middle;  ///< x with attention
        Scalar* mlp_inverse;
        Scalar* mlp_in;
        Scalar* hidden;    ///< rows x 4 width, before the ReLU
        Scalar* activated; ///< and after its square
    };

    /// A null `begin` only computes the size.
    Activations(const Sizes& sizes, Scalar* begin) : sizes_(sizes), begin_(begin) {
        const Count wide = sizes.rows() * sizes.width;
        Cut cut{begin, 0};
        static_cast<void>(block_from(cut));
        block_size_ = cut.at;
        cut.at *= sizes.layers;
        last = cut.take(wide);
        last_inverse = cut.take(sizes.rows());
        out = cut.take(wide);
        logits = cut.take(sizes.rows() * sizes.symbols);
        dx = cut.take(wide);
        dwide = cut.take(wide);
        dqkv = cut.take(3 * wide);
        dhidden = cut.take(mlp_factor * wide);
        dweights = cut.take(sizes.context * sizes.context);
        end = cut.at;
    }

    [[nodiscard]] Block block(Count layer) const {
        Cut cut{begin_, layer * block_size_};
        return block_from(cut);
    }

    Scalar* last; ///< rows x width, after all blocks
    Scalar* last_inverse;
    Scalar* out;    ///< and normed
    Scalar* logits; ///< rows x symbols; after the loss its derivatives
    Scalar* dx;
    Scalar* dwide;
    Scalar* dqkv;
    Scalar* dhidden;
    Scalar* dweights; ///< of one head in one window
    Count end;        ///< in values

  private:
    /// Cuts piece after piece, each aligned to 64 bytes.
    struct Cut {
        Scalar* begin;
        Count at;

        Scalar* take(Count size) {
            const Count from = std::exchange(at, at + (size + 15) / 16 * 16);
            return begin == nullptr ? nullptr : begin + from;
        }
    };

    [[nodiscard]] Block block_from(Cut& cut) const {
        const Count wide = sizes_.rows() * sizes_.width;
        Block block{};
        block.x = cut.take(wide);
        block.attention_inverse = cut.take(sizes_.rows());
        block.attention_in = cut.take(wide);
        block.qkv = cut.take(3 * wide);
        block.weights = cut.take(sizes_.heads * sizes_.context * sizes_.rows());
        block.mixed = cut.take(wide);
        block.middle = cut.take(wide);
        block.mlp_inverse = cut.take(sizes_.rows());
        block.mlp_in = cut.take(wide);
        block.hidden = cut.take(mlp_factor * wide);
        block.activated = cut.take(mlp_factor * wide);
        return block;
    }

    const Sizes& sizes_;
    Scalar* begin_;
    Count block_size_ = 0;
};

} // namespace
} // namespace truestep::training

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/training/stage_boundary.hpp>

namespace truestep::training {

/// A small GPT: embeddings of symbols and places, blocks of (RMSNorm, causal attention, RMSNorm,
/// MLP with squared ReLU), a last RMSNorm, and the symbols' embedding again as the output. No
/// biases.
struct Shape {
    std::size_t symbols = 0;
    std::size_t context = 64; ///< places: the symbols of a window
    std::size_t width = 128;
    std::size_t layers = 2;
    std::size_t heads = 4;

    bool operator==(const Shape&) const = default;
};

/// Throws truestep::Error, one line, for an impossible or unreasonably large shape.
void check(const Shape& shape);

/// The model's tensors: matrices of (in, out), row after row. Those of norms are always dense.
[[nodiscard]] problem::Layout layout_of(const Shape& shape);

/// Made from integers, so that every machine begins with the same bits.
[[nodiscard]] std::vector<float> initial_parameters(const Shape& shape, std::uint64_t seed);

/// Consecutive windows: `context` symbols each, and the symbols that follow each of them.
struct Batch {
    std::span<const std::uint8_t> inputs;
    std::span<const std::uint8_t> targets;
};

/// The model's passes, over one flat vector of parameters in the order of layout_of(), on one
/// thread. Same machine, same shape, same input: same bits. Float uses the widest instructions of
/// the machine. Double, which serves as a reference, uses plain ones.
template <class Scalar>
class Model {
  public:
    /// Allocates room for batches of up to `most_windows` windows.
    Model(const Shape& shape, std::size_t most_windows);

    /// The mean over all symbols of the batch, in nats. `between` is called behind every block
    /// except the last.
    [[nodiscard]] double loss(std::span<const Scalar> parameters, const Batch& batch,
                              StageBoundary<Scalar>* between = nullptr);
    /// The same; all of `gradient` is overwritten.
    double loss_and_gradient(std::span<const Scalar> parameters, const Batch& batch,
                             std::span<Scalar> gradient, StageBoundary<Scalar>* between = nullptr);

    /// The bytes of the room.
    [[nodiscard]] static std::size_t bytes(const Shape& shape, std::size_t windows);

  private:
    struct Free {
        void operator()(Scalar* room) const;
    };

    [[nodiscard]] std::size_t windows_of(std::span<const Scalar> parameters, const Batch& batch) const;

    Shape shape_;
    std::size_t size_;
    std::size_t most_windows_;
    std::unique_ptr<Scalar, Free> room_;
};

extern template class Model<float>;
extern template class Model<double>;

} // namespace truestep::training

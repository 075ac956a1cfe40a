#pragma once

#include <cstddef>

namespace truestep::training {

/// Code between two blocks, where the model is cut into stages. `values` are rows x width, one row
/// for each symbol of the batch, and are changed in place.
template <class Scalar>
class StageBoundary {
  public:
    /// Turns the output of block `layer` into the next block's input.
    virtual void forward(std::size_t layer, Scalar* values) = 0;
    /// Turns the loss's derivatives by that input into those by the output of `layer`.
    virtual void backward(std::size_t layer, Scalar* values) = 0;

  protected:
    // Not virtual: files for several instruction sets include this, and must not contain code of
    // it.
    ~StageBoundary() = default;
};

} // namespace truestep::training

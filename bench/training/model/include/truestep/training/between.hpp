#pragma once

#include <cstddef>

namespace truestep::training {

/// What the stream goes through between two blocks, where the model is cut into stages: `values` are rows
/// x width, a row for each symbol of the batch, and are changed in place.
template <class Scalar>
class Between {
  public:
    /// What block `layer` gives on becomes what the next one gets.
    virtual void forward(std::size_t layer, Scalar* values) = 0;
    /// The loss's derivatives by what that one got become those by what `layer` gave on.
    virtual void backward(std::size_t layer, Scalar* values) = 0;

  protected:
    // Not virtual: files for several sets of instructions include this, and must not have code of it.
    ~Between() = default;
};

} // namespace truestep::training

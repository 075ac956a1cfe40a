#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace scape::problem {

/// A coordinate of the flat parameter vector, or a count of them. Signed, as Eigen's.
using Index = std::int64_t;

struct Tensor {
    std::string name;
    Index size = 0;
    bool always_dense = false; ///< norms, biases: every coordinate is synchronized at every step

    friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// A model: named tensors, one after the other in one flat vector of d parameters (specification, section
/// 2).
class Layout {
  public:
    /// Throws scape::Error on an empty model, an empty or repeated name, a negative size, or too large a
    /// sum.
    explicit Layout(std::vector<Tensor> tensors);

    [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
    [[nodiscard]] Index size() const { return begins_.back(); }
    [[nodiscard]] Index begin(std::size_t tensor) const { return begins_[tensor]; }
    [[nodiscard]] Index end(std::size_t tensor) const { return begins_[tensor + 1]; }

    /// The tensor that holds coordinate `index`, which must lie in [0, size()).
    [[nodiscard]] std::size_t tensor_at(Index index) const;

    /// "tensor wq, index 5 (coordinate 517)", for messages.
    [[nodiscard]] std::string describe(Index index) const;

    friend bool operator==(const Layout& a, const Layout& b) { return a.tensors_ == b.tensors_; }

  private:
    std::vector<Tensor> tensors_;
    std::vector<Index> begins_; ///< one per tensor, and the end of the last
};

} // namespace scape::problem

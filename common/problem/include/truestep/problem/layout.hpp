// The tensors of a model as one flat vector of coordinates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::problem {

/// A coordinate of the flat parameter vector, or a count of them. Signed, as Eigen's.
using Index = std::int64_t;

struct Tensor {
    std::string name;
    Index size = 0;
    bool always_dense = false; ///< norms, biases: every coordinate is synchronized at every step
    Index param_group = 0;     ///< sets learning rate and weight decay (section 2)

    friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// Coordinates, [begin, end).
struct Range {
    Index begin = 0;
    Index end = 0;

    [[nodiscard]] Index size() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
};

/// A model: named tensors, one after the other in one flat vector of d parameters (specification, section
/// 2).
class Layout {
  public:
    /// Throws truestep::Error on an empty model, an empty or repeated name, a negative size, or too large a
    /// sum.
    explicit Layout(std::vector<Tensor> tensors);

    [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
    [[nodiscard]] Index size() const { return begins_.back(); }
    [[nodiscard]] Index begin(std::size_t tensor) const { return begins_[tensor]; }
    [[nodiscard]] Index end(std::size_t tensor) const { return begins_[tensor + 1]; }

    /// The tensor that holds coordinate `index`, which must lie in [0, size()).
    [[nodiscard]] std::size_t tensor_at(Index index) const;

    /// The number of parameter groups: 1 and the highest that a tensor names. A part of a model may
    /// have more than that.
    [[nodiscard]] Index param_groups() const;

    /// The layout of these coordinates alone, which ascend and do not overlap. Each stretch of a
    /// tensor becomes a tensor with the same name that remembers its place.
    [[nodiscard]] Layout part(const std::vector<Range>& ranges) const;
    /// The place in the model of a part's coordinate. In a whole model it is the coordinate itself.
    [[nodiscard]] Index place(Index index) const;

    /// Text for messages, such as "tensor wq, index 5 (coordinate 517)". A part gives the place in
    /// the model.
    [[nodiscard]] std::string describe(Index index) const;

    friend bool operator==(const Layout& a, const Layout& b) {
        return a.tensors_ == b.tensors_ && a.places_ == b.places_;
    }

  private:
    /// The place of a tensor's first value in the whole model.
    struct Place {
        Index in_tensor = 0;
        Index in_model = 0;

        friend bool operator==(const Place&, const Place&) = default;
    };

    Layout(std::vector<Tensor> parts, std::vector<Place> places);

    std::vector<Tensor> tensors_;
    std::vector<Index> begins_; ///< one per tensor, and the end of the last
    std::vector<Place> places_; ///< for a part: one per tensor
};

/// The same tensors in these parameter groups: "0,1,1" has a number for each tensor, in their
/// order; "" puts all in group 0. Throws truestep::Error.
[[nodiscard]] Layout with_param_groups(const Layout& layout, std::string_view text);

} // namespace truestep::problem

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
    Index param_group = 0;     ///< whose learning rate and weight decay it has (section 2)

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

    /// How many parameter groups the tensors name: 1 and the highest. Of a part, how many there are at
    /// least.
    [[nodiscard]] Index param_groups() const;

    /// These coordinates alone, which ascend and do not overlap: tensors that keep their names, one for
    /// each stretch of one, and what was their place.
    [[nodiscard]] Layout part(const std::vector<Range>& ranges) const;
    /// Of a part: where it was in the model. Of a model: itself.
    [[nodiscard]] Index place(Index index) const;

    /// "tensor wq, index 5 (coordinate 517)", for messages; of a part by its place in the model.
    [[nodiscard]] std::string describe(Index index) const;

    friend bool operator==(const Layout& a, const Layout& b) {
        return a.tensors_ == b.tensors_ && a.places_ == b.places_;
    }

  private:
    /// Where the first value of a tensor was.
    struct Place {
        Index in_tensor = 0;
        Index in_model = 0;

        friend bool operator==(const Place&, const Place&) = default;
    };

    Layout(std::vector<Tensor> parts, std::vector<Place> places);

    std::vector<Tensor> tensors_;
    std::vector<Index> begins_; ///< one per tensor, and the end of the last
    std::vector<Place> places_; ///< of a part, one per tensor
};

/// The same tensors in these parameter groups: "0,1,1" has a number for each tensor, in their order; with
/// "" all are of group 0. Throws truestep::Error.
[[nodiscard]] Layout with_param_groups(const Layout& layout, std::string_view text);

} // namespace truestep::problem

// Lays a model's tensors out as one vector, and finds the tensor of a coordinate.
#include <truestep/problem/layout.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_set>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

namespace {

/// Large enough for any model, small enough that byte counts and products with small factors cannot
/// overflow.
constexpr Index largest_model = std::numeric_limits<Index>::max() / 1024;

} // namespace

Layout::Layout(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
    std::unordered_set<std::string> names;
    begins_.reserve(tensors_.size() + 1);
    begins_.push_back(0);
    for (const Tensor& tensor : tensors_) {
        if (tensor.name.empty())
            throw Error("layout: tensor " + std::to_string(begins_.size() - 1) +
                        " has an empty name; name it");
        if (!names.insert(tensor.name).second)
            throw Error("layout: two tensors are named " + tensor.name + "; names must differ");
        if (tensor.size < 0)
            throw Error("layout: tensor " + tensor.name + " has size " + std::to_string(tensor.size) +
                        "; a size is 0 or more");
        if (tensor.param_group < 0)
            throw Error("layout: tensor " + tensor.name + " is of parameter group " +
                        std::to_string(tensor.param_group) + "; groups are numbered from 0");
        if (tensor.size > largest_model - begins_.back())
            throw Error("layout: the sizes up to tensor " + tensor.name + " add up to more than " +
                        std::to_string(largest_model) + " parameters; make the model smaller");
        begins_.push_back(begins_.back() + tensor.size);
    }
    if (size() == 0)
        throw Error("layout: the model has no parameters; give it at least one tensor of size 1 or more");
}

Layout::Layout(std::vector<Tensor> parts, std::vector<Place> places)
    : tensors_(std::move(parts)), begins_{0}, places_(std::move(places)) {
    for (const Tensor& tensor : tensors_)
        begins_.push_back(begins_.back() + tensor.size);
    if (size() == 0)
        throw Error("layout: a part of a model holds no parameters; give it at least one");
}

Index Layout::param_groups() const {
    return 1 + std::ranges::max_element(tensors_, {}, &Tensor::param_group)->param_group;
}

Layout Layout::part(const std::vector<Range>& ranges) const {
    std::vector<Tensor> tensors;
    std::vector<Place> places;
    for (const Range& range : ranges)
        for (Index at = range.begin; at < range.end;) {
            const std::size_t tensor = tensor_at(at);
            const Index end = std::min(range.end, this->end(tensor));
            const Index in_tensor = at - begin(tensor) + (places_.empty() ? 0 : places_[tensor].in_tensor);
            // A range that continues the one before extends its stretch.
            if (!tensors.empty() && tensors.back().name == tensors_[tensor].name &&
                places.back().in_tensor + tensors.back().size == in_tensor) {
                tensors.back().size += end - at;
            } else {
                tensors.push_back(tensors_[tensor]);
                tensors.back().size = end - at;
                places.push_back({in_tensor, place(at)});
            }
            at = end;
        }
    return {std::move(tensors), std::move(places)};
}

Index Layout::place(Index index) const {
    if (places_.empty())
        return index;
    const std::size_t tensor = tensor_at(index);
    return index - begin(tensor) + places_[tensor].in_model;
}

std::size_t Layout::tensor_at(Index index) const {
    // The last tensor that begins at or before the coordinate; this skips empty tensors before it.
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), index);
    return static_cast<std::size_t>(std::distance(begins_.begin(), after)) - 1;
}

std::string Layout::describe(Index index) const {
    const std::size_t tensor = tensor_at(index);
    const Index before = places_.empty() ? 0 : places_[tensor].in_tensor;
    return "tensor " + tensors_[tensor].name + ", index " + std::to_string(before + index - begin(tensor)) +
           " (coordinate " + std::to_string(place(index)) + ")";
}

Layout with_param_groups(const Layout& layout, std::string_view text) {
    std::vector<Tensor> tensors = layout.tensors();
    const auto groups = text.empty() ? std::vector<Index>(tensors.size(), 0) : parse_numbers<Index>(text);
    if (!groups || groups->size() != tensors.size())
        throw Error("param_groups is '" + std::string(text) +
                    "'; give the parameter group of each of the " + std::to_string(tensors.size()) +
                    " tensors, with commas between");
    for (std::size_t i = 0; i < tensors.size(); ++i)
        tensors[i].param_group = (*groups)[i];
    return Layout(std::move(tensors));
}

} // namespace truestep::problem

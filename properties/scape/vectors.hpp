#pragma once

#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/reference/vector.hpp>

// Conversions between the gate's view of a state and the reference's.

namespace truestep::properties::scape {

[[nodiscard]] inline reference::Vector<float> to_vector(const std::vector<float>& values) {
    return Eigen::Map<const reference::Vector<float>>(values.data(),
                                                      static_cast<problem::Index>(values.size()));
}

[[nodiscard]] inline std::vector<float> to_std(const reference::Vector<float>& values) {
    return {values.data(), values.data() + values.size()};
}

} // namespace truestep::properties::scape

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <truestep/reference/vector.hpp>

#include "peers/peer.hpp"

namespace truestep::peers {

using Gradients = std::vector<std::vector<float>>; ///< one per rank

/// All ranks' steps at once, plain and slow: the reference of a peer.
class Sequential {
  public:
    virtual ~Sequential() = default;
    /// Returns the parameters after the step; nothing if they are not known yet.
    virtual std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) = 0;
};

/// If parameters differ by rank, `rank` chooses whose are returned.
std::unique_ptr<Sequential> make_diloco_reference(const Setting&, int ranks, int rank,
                                                  const std::vector<float>& start);
std::unique_ptr<Sequential> make_gasloc_reference(const Setting&, int ranks, int rank,
                                                  const std::vector<float>& start);

inline reference::Vector<float> vector_of(const std::vector<float>& values) {
    return Eigen::Map<const reference::Vector<float>>(values.data(), static_cast<Index>(values.size()));
}

inline std::vector<float> values_of(const reference::Vector<float>& vector) {
    return {vector.data(), vector.data() + vector.size()};
}

} // namespace truestep::peers

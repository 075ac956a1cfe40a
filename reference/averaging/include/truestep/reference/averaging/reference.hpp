// The reference of local SGD with averaging (section 11).
#pragma once

#include <vector>

namespace truestep::reference::averaging {

using Vector = std::vector<float>;
using Gradients = std::vector<Vector>; ///< of one worker's local steps, in order

/// Section 11: the parameters after a round that all workers begin alike. `gradients` has an entry
/// for each worker.
[[nodiscard]] Vector after_round(const Vector& parameters, const std::vector<Gradients>& gradients,
                                 float learning_rate);

} // namespace truestep::reference::averaging

// A second, plain implementation of SCAPE, in which known bugs are planted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/planted/bugs.hpp>

namespace truestep::properties::scape::planted {

/// The beginning of a run whose earlier steps are not available, and what a part of a model cannot derive
/// about the whole.
struct Start {
    problem::Index step = 0;   ///< steps taken; 0: the start, with no state unless a mask is given
    std::vector<float> moment; ///< the same on all ranks
    std::vector<std::vector<float>> residual; ///< by rank
    std::vector<std::uint8_t> mask;           ///< of the first step, as bits
    std::vector<std::uint8_t> used;           ///< of the step before it; none: not available
    std::vector<double> norm;  ///< of each step's mean gradient, before clipping; none: it is computed
    std::vector<int> exponent; ///< E of section 21 for the first steps, if they cannot derive it
    /// Learning rates by step, for each parameter group behind the first.
    std::vector<std::vector<double>> more_learning_rates = {};
};

/// One rank of SCAPE as a colleague would write it from the specification: element by element, on full
/// vectors; only messages are packed. With Bug::none it is EXACT. Throws truestep::Error if the setup asks
/// for a rule that only old traces have (k_rounding, decay_order). The communicator has to outlive it.
[[nodiscard]] std::unique_ptr<properties::scape::RankUnderTest>
make_plain(const properties::scape::Setup& setup, distributed::Communicator& communicator, Bug bug,
           const Start& start = {});

} // namespace truestep::properties::scape::planted

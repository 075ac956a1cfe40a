#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/planted/bugs.hpp>

namespace truestep::properties::scape::planted {

/// Where a run goes on, of which what came before is not known; and what a part of a model cannot know of
/// the whole.
struct Start {
    problem::Index step = 0;   ///< steps taken; 0: it begins, with no state unless a mask is given
    std::vector<float> moment; ///< the same on all ranks
    std::vector<std::vector<float>> residual; ///< by rank
    std::vector<std::uint8_t> mask;           ///< that the first step uses, as bits
    std::vector<std::uint8_t> used;           ///< that the step before it used; none: nobody knows
    std::vector<double> norm;  ///< of each step's whole mean gradient, before clipping; none: it is taken
    std::vector<int> exponent; ///< E of section 21, of the first steps, where they do not tell it
    /// By step, of each parameter group behind the first.
    std::vector<std::vector<double>> more_learning_rates = {};
};

/// One rank of SCAPE as a colleague would write it down from the specification: element by element, on
/// vectors of full length, with nothing packed but what travels. With Bug::none it is EXACT. Throws
/// truestep::Error where the setup asks for a rule that only old traces have (k_rounding, decay_order). The
/// communicator has to outlive it.
[[nodiscard]] std::unique_ptr<properties::scape::Candidate>
make_plain(const properties::scape::Setup& setup, distributed::Communicator& communicator, Bug bug,
           const Start& start = {});

} // namespace truestep::properties::scape::planted

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/quantization.hpp>

#include "outcome.hpp"

namespace truestep::abi {

/// What a boundary has of section 23.1. By side: TRUESTEP_MAPL_SENDER and TRUESTEP_MAPL_RECEIVER. Nothing
/// where Z travels as it is.
struct MaplCodewords {
    std::array<distributed::mapl::Floats, 2> books{}; ///< C
    distributed::mapl::Floats learned{};              ///< L, the sender's
    std::array<problem::mapl::Index, 2> through{};    ///< micro-batches so far, in all steps
    problem::mapl::Index before = 0;                  ///< of those when the state was given
};

/// Throws truestep::Error for a state that cannot be.
[[nodiscard]] MaplCodewords made_mapl_codewords(const problem::mapl::Settings& settings,
                                                const truestep_mapl_state& state);
/// As the state has them. Throws truestep::Error while something is on its way.
void look_at_mapl_codewords(const MaplCodewords& of, truestep_mapl_state& state);

/// Throws truestep::Error.
void must_be_finite(std::span<const float> values, const std::string& what);

} // namespace truestep::abi

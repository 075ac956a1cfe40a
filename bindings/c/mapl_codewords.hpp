#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/quantization.hpp>

#include "outcome.hpp"

namespace truestep::abi {

/// A boundary's state of section 23.1, indexed by TRUESTEP_MAPL_SENDER and TRUESTEP_MAPL_RECEIVER.
/// Empty if Z travels unencoded.
struct MaplCodewords {
    std::array<distributed::mapl::Floats, 2> books{}; ///< C
    distributed::mapl::Floats learned{};              ///< L, the sender's
    std::array<problem::mapl::Index, 2> through{};    ///< micro-batches so far, in all steps
    problem::mapl::Index before = 0;                  ///< of these when the state was given
};

/// Throws truestep::Error for an impossible state.
[[nodiscard]] MaplCodewords made_mapl_codewords(const problem::mapl::Settings& settings,
                                                const truestep_mapl_state& state);
/// Copies them into the state. Throws truestep::Error while a micro-batch is under way.
void look_at_mapl_codewords(const MaplCodewords& of, truestep_mapl_state& state);

/// Throws truestep::Error if a value is not finite.
void must_be_finite(std::span<const float> values, const std::string& what);

} // namespace truestep::abi

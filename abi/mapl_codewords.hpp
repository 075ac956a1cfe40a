#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <scape/mapl/passes.hpp>
#include <scape/mapl/quantization.hpp>

#include "outcome.hpp"

namespace scape::abi {

/// What a boundary has of section 23.1. By side: SCAPE_MAPL_SENDER and SCAPE_MAPL_RECEIVER. Nothing where Z
/// travels as it is.
struct MaplCodewords {
    std::array<mapl::Floats, 2> books{};  ///< C
    mapl::Floats learned{};               ///< L, the sender's
    std::array<mapl::Index, 2> through{}; ///< micro-batches so far, in all steps
    mapl::Index before = 0;               ///< of those when the state was given
};

/// Throws scape::Error for a state that cannot be.
[[nodiscard]] MaplCodewords made_mapl_codewords(const mapl::Settings& settings,
                                                const scape_mapl_state& state);
/// As the state has them. Throws scape::Error while something is on its way.
void look_at_mapl_codewords(const MaplCodewords& of, scape_mapl_state& state);

/// Throws scape::Error.
void must_be_finite(std::span<const float> values, const std::string& what);

} // namespace scape::abi

#pragma once

#include <string>

#include <rapidcheck.h>

#include "generators.hpp"

/// RC_ASSERT that says where: only if it fails, as a line for every good coordinate would bury the bad one.
#define ASSERT_AT(step, coordinate, expression)                                                            \
    do {                                                                                                   \
        if (!(expression))                                                                                 \
            RC_LOG() << "step " << (step) << ", coordinate " << (coordinate) << '\n';                      \
        RC_ASSERT(expression);                                                                             \
    } while (false)

namespace scape::properties {

/// Fails the property, with the values around the first mismatch, unless all bits agree.
void assert_same_bits(const std::string& what, const Case& run, const Vector<float>& expected,
                      const Vector<float>& actual);
void assert_same_bits(const std::string& what, const Case& run, const PerRank<float>& expected,
                      const PerRank<float>& actual);
void assert_same_bits(const std::string& what, const Case& run, const ScapeState<float>& expected,
                      const ScapeState<float>& actual);

/// Property 1, exact: on every coordinate the sum over the ranks of what a step leaves is that of what went
/// in. (Sums, not means: no division by the number of ranks is needed, and so every number does.)
void assert_conserved(const Case& run, const ScapeState<float>& before, const PerRank<float>& g,
                      const ScapeState<float>& after);

} // namespace scape::properties

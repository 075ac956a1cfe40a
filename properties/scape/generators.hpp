#pragma once

#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/setting.hpp>
#include <truestep/properties/scape/case.hpp>

// Generators of cases for properties with different needs.

namespace truestep::properties::scape {

using gate::one_of;

/// Shrinking leads to the first values. Many ranks are rare, since each takes a thread.
inline const std::vector<int> worker_counts{1, 2, 3, 4, 5, 7, 8, 2, 3, 4,  5,
                                            7, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33};

/// Any case.
[[nodiscard]] rc::Gen<Case> any_case();

/// A case without clipping.
[[nodiscard]] rc::Gen<Case> unclipped_case();

/// A case without clipping, with data and betas of so few bits that every sum over ranks, every mean and
/// every moment is exact in fp32. Gradients are whole multiples of the number of workers, so that their
/// mean is exact for any number.
[[nodiscard]] rc::Gen<Case> exact_case();

/// Restores these features when cases are pinned to other values.
void needs_no_clipping(Case& run);
void needs_exactness(Case& run);
/// Restores so few steps that sums over the ranks stay within the bits of fp32.
void needs_few_bits(Case& run);

/// The edges at which the code of hosts and devices goes another way, where small cases never go.
[[nodiscard]] std::vector<Case> at_the_edges();

/// A case with a script.
[[nodiscard]] rc::Gen<Case> scripted_case();

/// A case with damage to a checkpoint.
[[nodiscard]] rc::Gen<Case> damaged_case();

/// Cases with a change that does not shrink.
template <class Change>
rc::Gen<Case> changed(rc::Gen<Case> cases, Change change) {
    return rc::gen::map(std::move(cases), [change](Case run) {
        change(run);
        return run;
    });
}

} // namespace truestep::properties::scape

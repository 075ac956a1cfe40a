#pragma once

#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/setting.hpp>
#include <truestep/properties/scape/case.hpp>

// The one generator of problems, in the flavours that the properties need.

namespace truestep::properties::scape {

using gate::one_of;

/// The first stand where shrinking leads; more ranks than that are seldom, as a run takes as many threads.
inline const std::vector<int> worker_counts{1, 2, 3, 4, 5, 7, 8, 2, 3, 4,  5,
                                            7, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33};

/// Anything goes.
[[nodiscard]] rc::Gen<Case> any_case();

/// No clipping.
[[nodiscard]] rc::Gen<Case> unclipped_case();

/// No clipping, and data and betas of so few bits that every sum over ranks, every mean and every moment is
/// exact in fp32. Gradients are whole multiples of the number of workers: their mean is then exact for any
/// number.
[[nodiscard]] rc::Gen<Case> exact_case();

/// What keeps those so when cases are held to other values.
void needs_no_clipping(Case& run);
void needs_exactness(Case& run);

/// With a script.
[[nodiscard]] rc::Gen<Case> scripted_case();

/// With damage to a checkpoint.
[[nodiscard]] rc::Gen<Case> damaged_case();

/// Each drawn case, changed: what is changed does not shrink.
template <class Change>
rc::Gen<Case> changed(rc::Gen<Case> cases, Change change) {
    return rc::gen::map(std::move(cases), [change](Case run) {
        change(run);
        return run;
    });
}

} // namespace truestep::properties::scape

// The parts of averaging's gate: its case, what is recorded of a rank, and what is tested.
#pragma once

#include <vector>

#include <truestep/gate/case_spec.hpp>
#include <truestep/gate/played_implementation.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/reference/averaging/reference.hpp>

namespace truestep::properties::averaging {

using problem::Index;
using reference::averaging::Gradients;
using reference::averaging::Vector;

/// A few small numbers from which parameters and gradients follow, so that a case is one line of text and
/// any rank can make its own part.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Index local_steps = 1; ///< in a round
    Index workers = 1;
    Index size = 1; ///< parameters
    Index rounds = 1;
    problem::DataClass data = problem::DataClass::dyadic;
    Index seed = 0;
};

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several ranks", 60, [](const Case& run) { return run.workers > 1; }},
    {"several local steps", 50, [](const Case& run) { return run.local_steps > 1; }}};

/// The settings of a case, which a line has as
/// "local_steps=2,workers=3,size=4,rounds=1,seed=7,data=normal".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

[[nodiscard]] Vector parameters_of(const Case& run);
/// A worker's gradients in one round, one vector per local step.
[[nodiscard]] Gradients gradients_of(const Case& run, int worker, Index round);
/// A power of two on dyadic data, whose numbers a reader can follow. On other data every product rounds.
[[nodiscard]] float learning_rate_of(const Case& run);

using Implementation = gate::PlayedImplementation<Case>;

/// The properties, which must always hold (section 11).
[[nodiscard]] std::vector<gate::Property> properties();

[[nodiscard]] std::vector<gate::KnownBug> known_bugs();
/// Plays a case plainly on one rank, with that known bug, or without any for 0.
void play_with(int known_bug, const Case& run, distributed::Communicator& ranks, gate::ShownByRank& seen);

} // namespace truestep::properties::averaging

// Which part of a recorded run the known bugs are tried on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/planted/plain.hpp>
#include <truestep/verify/scape/trace.hpp>

namespace truestep::properties::scape::planted {

/// The part of a recorded run on which known bugs are tried.
struct Replay {
    problem::Index begin = 0; ///< recorded steps before the first one
    problem::Index end = 0;   ///< the last step
    trace::Window window;     ///< of coordinates
    bool whole = true;        ///< all coordinates
    bool in_segment = false;  ///< a part of one segment, which cannot determine the mask
};

struct ReplayChoice {
    std::vector<Replay> replays; ///< tried one after the other, until something fits
    std::string why;             ///< why there is none
};

/// All of the run if that takes seconds. Else it begins at a recorded state, a step or two before the one
/// that goes wrong; if that is too much, it takes, of as few steps, the segment that differs, with its
/// neighbours; a part of a large segment comes first. Then the same from the state before the wrong step,
/// since a bug need not act at every step. The choice depends on the sizes only, never on time.
[[nodiscard]] ReplayChoice choose_replays(const verify::scape::TraceReader& trace,
                                          const gate::FirstDifference& parted);

/// Nothing if a rank's segments are not adjacent, which implementations require.
[[nodiscard]] std::optional<properties::scape::Scenario>
scenario_of(const verify::scape::TraceReader& trace, const Replay& replay);
[[nodiscard]] Start start_of(const verify::scape::TraceReader& trace, const Replay& replay);

/// One line about the parts that were left out; empty if nothing was.
[[nodiscard]] std::string told(const verify::scape::TraceReader& trace, const Replay& replay);

} // namespace truestep::properties::scape::planted

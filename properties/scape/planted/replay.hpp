#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/planted/plain.hpp>
#include <truestep/verify/scape/trace.hpp>

namespace truestep::properties::scape::planted {

/// The part of a recorded run that hypotheses are put through.
struct Replay {
    problem::Index begin = 0; ///< recorded steps before the first that is taken
    problem::Index end = 0;   ///< the last that is taken
    trace::Window window;     ///< of coordinates
    bool whole = true;        ///< all coordinates
    bool in_segment = false;  ///< a part of one segment, of which nobody can choose a mask
};

struct ReplayChoice {
    std::vector<Replay> replays; ///< one after the other, until something fits
    std::string why;             ///< there is none
};

/// All of the run where that takes seconds. Else from a recorded state, a step or two before the one that
/// goes wrong; else of as few steps the segment in which it parts, with those beside it; and before a
/// segment that is large a part of it. Then the same from the state before the step that goes wrong: a
/// mistake need not have been made at every step. It hangs on the sizes alone, never on the time.
[[nodiscard]] ReplayChoice choose_replays(const verify::scape::TraceReader& trace,
                                          const gate::Parted& parted);

/// Nothing where each rank's segments do not lie side by side, as they have to of an implementation.
[[nodiscard]] std::optional<properties::scape::Scenario>
scenario_of(const verify::scape::TraceReader& trace, const Replay& replay);
[[nodiscard]] Start start_of(const verify::scape::TraceReader& trace, const Replay& replay);

/// What was left out, one line; empty where nothing was.
[[nodiscard]] std::string told(const verify::scape::TraceReader& trace, const Replay& replay);

} // namespace truestep::properties::scape::planted

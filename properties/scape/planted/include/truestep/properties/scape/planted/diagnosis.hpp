// The search for the known bug that explains a recorded run of SCAPE.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::properties::scape::planted {

/// Known bugs that explain a recorded run of SCAPE where it first differs from the reference. Every known
/// bug is tried on the recorded gradients. Those that make the recorded values, bit for bit, are named with
/// how many of the wrong values they explain: one line each, the best first. The run begins where the trace
/// does, so that bugs that show late are found; a long run begins at a recorded state, and of a large one
/// some segments are run (the last line tells). How much is tried depends on the sizes only
/// (gate::too_large_to_try), never on time.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::scape::planted

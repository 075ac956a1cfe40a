#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::properties::scape::planted {

/// What may be wrong with a recorded run of SCAPE where it first parts from the reference: every planted
/// mistake is tried on its gradients, and those are named that make the recorded values, bit for bit, with
/// how many of the wrong ones they explain. One line each, the best first. The run is made from where the
/// trace begins, so that a mistake that shows late is found, too; of a long one from a recorded state, of a
/// large one some segments (the last line says so). How much is tried hangs on the sizes alone
/// (gate::too_large_to_try), never on the time.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::Parted& parted, gate::Gradients gradients);

} // namespace truestep::properties::scape::planted

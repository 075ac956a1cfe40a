// Recorded runs of GASLoC as traces.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <truestep/verify/gasloc/traces.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// Each result of a trace with the part of a worker's state that holds it after a round. The momentum's
/// base is y or z, depending on the settings.
[[nodiscard]] std::vector<std::pair<verify::gasloc::Result, std::vector<float> State::*>>
shown(const Settings& settings);

/// Writes the recordings as a trace of the rounds that all workers completed. Returns false, without a
/// file, if there is none or if the run restarted with another number of workers.
bool record_lives(const std::filesystem::path& path, const std::string& source, const Scenario& scenario,
                  const std::vector<RankRecording>& lives);

} // namespace truestep::properties::gasloc

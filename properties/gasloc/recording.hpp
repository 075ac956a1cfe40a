#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <truestep/verify/gasloc/traces.hpp>

#include "candidate.hpp"

namespace truestep::properties::gasloc {

/// What a worker shows of its state after a round, and the results of a trace that hold it: y or z, by what
/// its momentum is made of.
[[nodiscard]] std::vector<std::pair<verify::gasloc::Result, std::vector<float> State::*>>
shown(const Settings& settings);

/// What workers were seen to do, as a trace: the rounds that all have ended. False, and no file, where
/// there is none, or where the run began again with others.
bool record_lives(const std::filesystem::path& path, const std::string& source, const Scenario& scenario,
                  const std::vector<Life>& lives);

} // namespace truestep::properties::gasloc

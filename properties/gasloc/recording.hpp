#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "candidate.hpp"

namespace truestep::gasloc {

/// What workers were seen to do, as a trace: the rounds that all have ended. False, and no file, where
/// there is none, or where the run began again with others.
bool record_lives(const std::filesystem::path& path, const std::string& source, const Scenario& scenario,
                  const std::vector<Life>& lives);

} // namespace truestep::gasloc

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/gate/apart.hpp>

#include "systems.hpp"
#include "training.hpp"

namespace truestep::tool {

/// What `truestep planted` was asked for.
struct PlantedRun {
    std::string system = all_systems().front().name;
    std::vector<int> numbers;
    std::vector<std::string> properties;
    std::vector<std::string> without;
    bool all = false;
    bool list = false;
    bool converge = false;
    int pairs = PlantedTraining().pairs;
    int cases = 100;
    int clean_cases = 10'000;
    std::uint64_t seed = 1;
    double timeout = 20.0;
    int jobs = gate::usual_processes();
    std::string json;
    std::string report;
};

/// Puts each planted mistake, and who has none, to the properties; tells, and returns the exit status.
int search_for_planted(const PlantedRun& settings, const std::vector<std::string>& arguments);

} // namespace truestep::tool

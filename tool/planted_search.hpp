#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/gate/isolated_search.hpp>

#include "systems.hpp"
#include "training.hpp"

namespace truestep::tool {

/// The options of `truestep planted`.
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

/// Tests each known bug, and the clean implementations, against the properties. Prints the results,
/// and returns the exit status.
int search_for_planted(const PlantedRun& settings, const std::vector<std::string>& arguments);

} // namespace truestep::tool

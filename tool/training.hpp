#pragma once

#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

// `check --converge` and `planted --converge` train a small language model. Most who build the tool
// do not need that, so it is in the program truestep-converge: this tool, linked with
// planted_converge.cpp instead of training_elsewhere.cpp. The tool parses the arguments, and then
// becomes that program.

namespace truestep::tool {

/// The options of `truestep planted --converge`.
struct PlantedTraining {
    std::vector<int> numbers; ///< of known bugs; none: all, and those beside the step
    int pairs = 8;
    int jobs = 0;
    double timeout = 20.0; ///< of a silent rank
    std::string json;
    std::string report;
};

/// Adds `check --converge` to a system that says how its candidates are trained.
[[nodiscard]] gate::System with_training(gate::System system);
/// Trains with each known bug, and prints which ones a loss curve reveals. The exit status says
/// whether the clean implementation is SAME, and each bug beside the step is not.
[[nodiscard]] int planted_training(const PlantedTraining& asked, const gate::System& system,
                                   const std::vector<std::string>& arguments);

} // namespace truestep::tool

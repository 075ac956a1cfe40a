#pragma once

#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

// `check --converge` and `planted --converge` train a small language model, which most who build the tool
// do not need: they are of the program truestep-converge, which is this tool linked with
// planted_converge.cpp in the place of training_elsewhere.cpp. The tool parses the line, and then becomes
// it.

namespace truestep::tool {

/// What `truestep planted --converge` was asked for.
struct PlantedTraining {
    std::vector<int> numbers; ///< of mistakes; none: all, and those beside the step
    int pairs = 8;
    int jobs = 0;
    double timeout = 20.0; ///< of a silent rank
    std::string json;
    std::string report;
};

/// The system with `check --converge`, where it says how its candidates are trained.
[[nodiscard]] gate::System with_training(gate::System system);
/// Trains with each planted mistake, and says which ones a loss curve shows. Returns the exit status: that
/// the clean one is the SAME, and each mistake beside the step is not.
[[nodiscard]] int planted_training(const PlantedTraining& asked, const gate::System& system,
                                   const std::vector<std::string>& arguments);

} // namespace truestep::tool

#pragma once

#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

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

/// Trains with each planted mistake, and says which ones a loss curve shows. Returns the exit status: that
/// the clean one is the SAME, and each mistake beside the step is not.
[[nodiscard]] int planted_training(const PlantedTraining& asked, const gate::System& system,
                                   const std::vector<std::string>& arguments);

} // namespace truestep::tool

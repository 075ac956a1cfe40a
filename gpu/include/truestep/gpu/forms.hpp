#pragma once

#include <limits>
#include <string>

// The forms in which the device code of any system can be tested: their names, and why one is not
// available here. The host's form, "cuda-blocks", always is.

namespace truestep::gpu {

struct Form {
    std::string name;
    std::string unavailable{}; ///< why it cannot be run here, in one line, or empty
    /// Devices and libraries, in one line. The simulator is not a device, and no report may say so.
    std::string runs_on{};
    int most_ranks = std::numeric_limits<int>::max();
};

/// All ranks on the first device. `missing`: what the system needs there and this build lacks, in
/// one line, or empty.
[[nodiscard]] Form form_of_one_device(const std::string& missing = {});
/// A device for each rank, through NCCL. `threads`: the ranks are threads of this process.
[[nodiscard]] Form form_of_a_device_each(bool threads, const std::string& missing = {});

} // namespace truestep::gpu

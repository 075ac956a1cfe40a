#pragma once

#include <cstdint>
#include <string>

namespace truestep::gpu {

struct Availability {
    int devices = 0;
    /// One line: the device where there is one, and why there is none where not.
    std::string text;
    /// It is the simulator's (gpu/simulator/), and nothing may be told of a device.
    bool simulated = false;
};

/// Whether the CUDA backend can be used here. Needs no driver.
[[nodiscard]] Availability availability();

/// Whether this program has the simulator in the place of CUDA's runtime. Asks no driver.
[[nodiscard]] bool simulated();

/// On the simulator: in which order is done what may be done in any, on the streams that this thread, a
/// rank's, makes from now on. Does nothing elsewhere.
void set_schedule(int rank);
/// Another order for the same ranks, for all threads from now on; 1 at first.
void choose_schedule(std::uint64_t number);

} // namespace truestep::gpu

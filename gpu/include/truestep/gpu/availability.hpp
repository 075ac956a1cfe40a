// Reports which CUDA devices are available here, and sets the simulator's order of work.
#pragma once

#include <cstdint>
#include <string>

namespace truestep::gpu {

struct Availability {
    int devices = 0;
    /// One line: the name of the device, or the reason why there is none.
    std::string text;
    /// Whether the device is the simulator's (gpu/simulator/). Reports must not describe it as a
    /// device.
    bool simulated = false;
};

/// Whether the CUDA backend can be used here. Needs no driver.
[[nodiscard]] Availability availability();

/// Whether the simulator is linked in place of CUDA's runtime. Needs no driver.
[[nodiscard]] bool simulated();

/// Sets the order in which the simulator does work that may be done in any order, on streams that
/// this thread, a rank's, makes from now on. Without the simulator it does nothing.
void set_schedule(int rank);
/// Chooses another order for the same ranks, for all threads from now on; 1 at first.
void choose_schedule(std::uint64_t number);

} // namespace truestep::gpu

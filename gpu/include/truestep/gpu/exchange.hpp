#pragma once

#include <cstdint>

namespace truestep::gpu {

/// Where the data that a communicator moves is.
enum class Exchange : std::uint8_t {
    host, ///< where the host can reach it: any communicator will do, and each exchange waits for the stream
    device, ///< in the device's memory: for communicators that work on the same stream
};

} // namespace truestep::gpu

#pragma once

#include <string>

namespace scape::gpu {

struct Availability {
    int devices = 0;
    /// One line: the device where there is one, and why there is none where not.
    std::string text;
};

/// Whether the CUDA backend can be used here. Needs no driver.
[[nodiscard]] Availability availability();

} // namespace scape::gpu

#pragma once

#include <stdexcept>

namespace truestep::simulator {

/// An error of a kernel, or PTX that the machine does not know. One line; for a kernel it names the
/// kernel, block, thread, line of the PTX and of the source.
struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace truestep::simulator

#pragma once

#include <stdexcept>

namespace truestep::simulator {

/// What a kernel does that no kernel may, or PTX that the machine does not know. One line; of a kernel it
/// says which, block, thread, line of the PTX and of the source.
struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace truestep::simulator

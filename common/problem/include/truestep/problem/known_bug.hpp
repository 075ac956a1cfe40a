#pragma once

#include <string>

// The type by which all systems describe their known bugs, of hosts and of devices.

namespace truestep::problem {

/// A known bug, which a property has to catch.
struct KnownBug {
    int number = 0; ///< from 1 on, without gaps
    std::string name;
    std::string shows; ///< the symptom that a user would see, and when it can be seen at all
    /// Only device code has it, although a known bug of hosts shows the same symptom.
    bool of_devices = false;
};

} // namespace truestep::problem

#pragma once

#include <string>

// All systems describe their mistakes by this type, those of hosts and those of code for devices.

namespace truestep::problem {

/// A mistake made for real, that a property has to catch.
struct Mistake {
    int number = 0; ///< from 1 on, without gaps
    std::string name;
    std::string shows; ///< what a user would see, and when it can be seen at all
    /// Only code for devices has it, and a mistake of hosts shows the same.
    bool of_devices = false;
};

} // namespace truestep::problem

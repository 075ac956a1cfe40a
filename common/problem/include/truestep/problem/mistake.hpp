#pragma once

#include <string>

// What is known of a mistake that was made on purpose: one type for all systems, on hosts and on devices.

namespace truestep::problem {

/// A mistake made for real, that a property has to catch.
struct Mistake {
    int number = 0; ///< from 1 on, without gaps
    std::string name;
    std::string shows; ///< what a user would see, and when it can be seen at all
    bool of_devices =
        false; ///< only code for devices has it, and what it shows a mistake of hosts shows, too
};

} // namespace truestep::problem

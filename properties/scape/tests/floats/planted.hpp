// Known bugs of the passes.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"

namespace truestep::properties::scape::floats {

/// The plain variant with one known bug.
struct Planted {
    std::string name;
    Table table;
    OneVariable seen_by; ///< a function of one variable that suffices to detect it
};
[[nodiscard]] std::vector<Planted> planted_tables();

} // namespace truestep::properties::scape::floats

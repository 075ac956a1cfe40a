#pragma once

#include <string>
#include <vector>

#include "cases.hpp"

namespace truestep::properties::scape::floats {

/// The plain variant with one mistake.
struct Planted {
    std::string name;
    Table table;
    OneVariable seen_by; ///< a function of one variable that is enough to see it
};
[[nodiscard]] std::vector<Planted> planted_tables();

} // namespace truestep::properties::scape::floats

#pragma once

#include <truestep/problem/mapl/settings.hpp>

namespace truestep::abi {

/// What `settings` of truestep_mapl_boundary_create says.
struct MaplSettings {
    problem::mapl::Settings boundary{.width = 0, .rank = 0}; ///< which have to be given
    bool reference = false;
};

/// Throws truestep::Error for what is no setting, and for a boundary that cannot be.
[[nodiscard]] MaplSettings parse_mapl_settings(const char* text);

} // namespace truestep::abi

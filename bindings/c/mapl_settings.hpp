#pragma once

#include <truestep/problem/mapl/settings.hpp>

namespace truestep::abi {

/// The settings in the text that truestep_mapl_boundary_create takes.
struct MaplSettings {
    problem::mapl::Settings boundary{.width = 0, .rank = 0}; ///< which must be given
    bool reference = false;
};

/// Throws truestep::Error for unknown settings, and for an impossible boundary.
[[nodiscard]] MaplSettings parse_mapl_settings(const char* text);

} // namespace truestep::abi

#pragma once

#include <string>

#include <scape/mapl/settings.hpp>

namespace scape::abi {

/// What `settings` of scape_mapl_boundary_create says.
struct MaplSettings {
    mapl::Settings boundary{.width = 0, .rank = 0}; ///< which have to be given
    bool reference = false;
};

/// Throws scape::Error for what is no setting, and for a boundary that cannot be.
[[nodiscard]] MaplSettings parse_mapl_settings(const std::string& text);

} // namespace scape::abi

#pragma once

#include <string>

#include <scape/gate/programs.hpp>
#include <scape/properties/implementation.hpp>

namespace scape::properties {

/// What a program says of itself.
struct Hello {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    Shows shows;
    gate::LeftOut left_out; ///< with what follows from what it does not show
};

/// Its answer to the greeting; the settings have the last word. Throws scape::Error.
[[nodiscard]] Hello hello_of(const gate::Programs::Json& answer, const gate::ProgramSettings& settings);

} // namespace scape::properties

#pragma once

#include <string>

#include <truestep/gate/programs.hpp>
#include <truestep/properties/implementation.hpp>

namespace truestep::properties {

/// What a program says of itself.
struct Hello {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    Shows shows;
    gate::LeftOut left_out; ///< with what follows from what it does not show
};

/// Its answer to the greeting; the settings have the last word. Throws truestep::Error.
[[nodiscard]] Hello hello_of(const gate::Programs::Json& answer, const gate::ProgramSettings& settings);

} // namespace truestep::properties

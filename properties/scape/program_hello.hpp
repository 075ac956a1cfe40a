// What a program for SCAPE answers to the greeting.
#pragma once

#include <truestep/gate/program_implementation.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape {

[[nodiscard]] gate::ProgramSystem programs_of_scape();
[[nodiscard]] VisibleState shows_of(const gate::ProgramHello& hello);

} // namespace truestep::properties::scape

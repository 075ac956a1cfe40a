#pragma once

#include <truestep/gate/program_implementation.hpp>
#include <truestep/properties/implementation.hpp>

namespace truestep::properties {

[[nodiscard]] gate::ProgramSystem programs_of_scape();
[[nodiscard]] Shows shows_of(const gate::ProgramHello& hello);

} // namespace truestep::properties

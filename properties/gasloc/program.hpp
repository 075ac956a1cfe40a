// A program of any language (docs/program-protocol.md) as an implementation of GASLoC.
#pragma once

#include <memory>

#include <truestep/gate/programs.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// The implementation whose workers are the program's processes.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::gasloc

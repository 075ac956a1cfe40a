// A program of any language (docs/program-protocol.md) as an implementation of dense training.
#pragma once

#include <memory>

#include <truestep/gate/programs.hpp>

#include "implementation.hpp"

namespace truestep::properties::dense {

/// The implementation whose ranks are the program's processes.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
program_implementation(const gate::ProgramSettings& settings,
                       const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::dense

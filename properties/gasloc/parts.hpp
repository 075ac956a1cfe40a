// Declares what gate::System takes from the parts of GASLoC's gate.
#pragma once

#include <memory>
#include <vector>

#include <truestep/gate/learning.hpp>
#include <truestep/gate/programs.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// The whole system except for implementations.
[[nodiscard]] gate::System system_of_properties();

/// All properties in the order of section 17; the reference comes last.
[[nodiscard]] std::vector<gate::Property> properties();

/// How implementations are trained (section 33).
[[nodiscard]] gate::Learning learning();

/// The implementation whose workers are the processes of a program of any language
/// (docs/program-protocol.md).
[[nodiscard]] std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::gasloc

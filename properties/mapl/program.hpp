// A program of any language (docs/program-protocol.md) as an implementation of MAPL.
#pragma once

#include <filesystem>
#include <memory>

#include <truestep/gate/programs.hpp>

#include "implementation.hpp"

namespace truestep::properties::mapl {

/// The implementation whose stages are the program's processes, with the sides of the boundaries beside
/// them.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group);

/// The sides of one rank, which ask its process, with the world's folder for files.
[[nodiscard]] EndFactory program_sides(gate::Programs& programs, int workers, int rank,
                                       const std::filesystem::path& folder);

} // namespace truestep::properties::mapl

#pragma once

#include <set>
#include <string>
#include <vector>

#include <truestep/gate/implementation.hpp>
#include <truestep/gate/programs.hpp>

namespace truestep::gate {

/// The version of docs/program-protocol.md.
constexpr int program_protocol = 1;

/// What a program says of itself, of whatever system.
struct ProgramHello {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    std::set<std::string> shows; ///< of its system's views
    LeftOut left_out;
};

/// Its answer to the greeting; the settings have the last word. `views`: all that there are, the first of
/// which is needed; `properties`: what may be left out. Throws truestep::Error.
[[nodiscard]] ProgramHello program_hello(const Programs::Json& answer, const ProgramSettings& settings,
                                         const std::vector<std::string>& views,
                                         const std::vector<std::string>& properties);

} // namespace truestep::gate

#pragma once

#include <string>
#include <vector>

#include <scape/gate/system.hpp>
#include <scape/verify/traces.hpp>

namespace scape::tool {

/// What may be wrong with a run that has failed, a line each: what libscape says, too, and then the planted
/// mistakes that make the recorded bits.
[[nodiscard]] std::vector<std::string> what_fits(const gate::System& system,
                                                 const verify::TraceVerdict& verdict,
                                                 const std::string& trace,
                                                 const verify::VerifyOptions& options);

} // namespace scape::tool

#pragma once

#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/verify/traces.hpp>

namespace truestep::tool {

/// Possible causes of a failed run, a line each: those of libtruestep, and then the known bugs that
/// reproduce the recorded bits.
[[nodiscard]] std::vector<std::string> what_fits(const gate::System& system,
                                                 const verify::TraceVerdict& verdict,
                                                 const std::string& trace,
                                                 const verify::VerifyOptions& options);

} // namespace truestep::tool

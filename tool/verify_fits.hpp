#pragma once

#include <string>
#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/verify/traces.hpp>

namespace truestep::tool {

/// What may be wrong with a run that has failed, a line each: what libtruestep says, too, and then the
/// planted mistakes that make the recorded bits.
[[nodiscard]] std::vector<std::string> what_fits(const gate::System& system,
                                                 const verify::TraceVerdict& verdict,
                                                 const std::string& trace,
                                                 const verify::VerifyOptions& options);

} // namespace truestep::tool

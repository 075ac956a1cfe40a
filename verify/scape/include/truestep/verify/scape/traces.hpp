#pragma once

#include <truestep/verify/traces.hpp>

namespace truestep::verify::scape {

/// The traces of SCAPE and AdamS.
[[nodiscard]] Traces scape_traces();

} // namespace truestep::verify::scape

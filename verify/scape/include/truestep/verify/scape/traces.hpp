#pragma once

#include <truestep/verify/traces.hpp>

namespace truestep::verify::scape {

/// SCAPE's and AdamS's.
[[nodiscard]] Traces scape_traces();

} // namespace truestep::verify::scape

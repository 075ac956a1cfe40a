#pragma once

#include <scape/verify/traces.hpp>

namespace scape::verify {

/// SCAPE's and AdamS's.
[[nodiscard]] Traces scape_traces();

} // namespace scape::verify

#pragma once

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::host {

/// The variant of this name, or the best without a name. Throws std::invalid_argument if this machine
/// lacks it.
[[nodiscard]] Variant variant_for(const char* asked);

extern const Table plain_table;
#if defined(__x86_64__)
extern const Table avx2_table;
extern const Table avx512_table;
#endif

} // namespace truestep::distributed::host

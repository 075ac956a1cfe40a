#pragma once

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::host {

/// The variant of this name, or the best without a name. Throws std::invalid_argument if this machine
/// lacks it.
[[nodiscard]] Variant variant_for(const char* asked);

/// Throws std::invalid_argument if this machine lacks the variant.
[[nodiscard]] const Table& table_of(Variant variant);

extern const Table plain_table;
#if defined(__x86_64__)
extern const Table avx2_table;
extern const Table avx512_table;
#elif defined(__aarch64__)
extern const Table neon_table;
#endif

} // namespace truestep::distributed::host

#pragma once

#include <cstdint>
#include <vector>

#include <truestep/gpu/mapl/devices.hpp>

namespace truestep::gpu::mapl {

/// Which tokens have the same id, in one vector, as AddRows reads it.
struct TokenOrder {
    std::vector<std::uint32_t> values; ///< the tokens, id after id; each id; where each begins, and the end
    std::size_t tokens = 0;
    std::size_t groups = 0; ///< distinct ids

    [[nodiscard]] std::size_t ids_at() const { return tokens; }
    [[nodiscard]] std::size_t begins_at() const { return tokens + groups; }
};
[[nodiscard]] TokenOrder order_of(const std::vector<Id>& ids);

} // namespace truestep::gpu::mapl

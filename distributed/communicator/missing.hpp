#pragma once

#include <chrono>
#include <span>
#include <string>

#include <scape/distributed/communicator.hpp>

namespace scape::distributed {

/// "rank 2", "ranks 2 and 5", "ranks 2, 5 and 6".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

/// "rank 2 did not answer within 5 s in a payload exchange": one wording for all communicators.
[[nodiscard]] std::string missing_text(std::span<const int> ranks, std::chrono::milliseconds timeout,
                                       const std::string& where);

/// "an agreement exchange", "a payload exchange".
[[nodiscard]] std::string exchange_text(Traffic traffic);

/// "rank 2: what happened": how each reason is passed on.
[[nodiscard]] std::string reason_text(int rank, const std::string& reason);

} // namespace scape::distributed

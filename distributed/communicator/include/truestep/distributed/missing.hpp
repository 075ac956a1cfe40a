#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// "rank 2", "ranks 2 and 5", "ranks 2, 5 and 6".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

/// "rank 2 did not answer within 5 s in a payload exchange": one wording for all communicators.
[[nodiscard]] std::string missing_text(std::span<const int> ranks, std::chrono::milliseconds timeout,
                                       const std::string& where);

/// "an agreement exchange", "a payload exchange".
[[nodiscard]] std::string exchange_text(Traffic traffic);

/// "rank 2: what happened": how each reason is passed on.
[[nodiscard]] std::string reason_text(int rank, const std::string& reason);

/// What a message between two ranks is. Both sides say it.
struct Label {
    Traffic traffic{};
    std::uint64_t number = 0;
    std::size_t bytes = 0;

    bool operator==(const Label&) const = default;
};

/// "rank 2 did not send its parameters (message 7) to rank 3 within 5 s".
[[nodiscard]] std::string late_text(int from, const Label& label, int to,
                                    std::chrono::milliseconds timeout);

/// "rank 2 did not take the parameters (message 7) of rank 3 within 5 s".
[[nodiscard]] std::string untaken_text(int to, const Label& label, int from,
                                       std::chrono::milliseconds timeout);

/// "rank 2 has left and did not send its parameters (message 7) to rank 3".
[[nodiscard]] std::string left_text(int from, const Label& label, int to);

/// "rank 2 sent its moment (message 7, 4 bytes) where rank 3 awaits its parameters (message 8, 4 bytes)".
[[nodiscard]] std::string other_text(int from, const Label& sent, int to, const Label& awaited);

/// What the others are told of a rank that has left: its reason; but where it ended by what it was told
/// itself, that, so that the first cause comes to all.
[[nodiscard]] std::string end_text(int rank, const std::string& reason, const std::string& told);

/// Throws std::invalid_argument unless a rank may have messages for this one, or from it.
void check_peer(int peer, int rank, int size);

} // namespace truestep::distributed

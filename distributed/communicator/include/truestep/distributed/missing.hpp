// The texts of errors about missing ranks and messages, the same for all communicators.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Text such as "rank 2", "ranks 2 and 5", "ranks 2, 5 and 6".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

/// Text such as "rank 2 did not answer within 5 s in a payload exchange", the same for all
/// communicators.
[[nodiscard]] std::string missing_text(std::span<const int> ranks, std::chrono::milliseconds timeout,
                                       const std::string& where);

/// Text such as "an agreement exchange", "a payload exchange".
[[nodiscard]] std::string exchange_text(Traffic traffic);

/// Text such as "rank 2: what happened", the form in which reasons are passed on.
[[nodiscard]] std::string reason_text(int rank, const std::string& reason);

/// "  rank 0 has waited 2.0 s for rank 1 in a payload exchange", and below it the rank's last spans where a
/// timeline is on: a line of what is printed at a timeout.
[[nodiscard]] std::string wait_text(int rank, std::chrono::milliseconds since, std::span<const int> awaited,
                                    const std::string& where, const std::string& spans);

/// The same about a rank that does not wait: "  rank 1 does not wait: its last wait began 3.1 s ago".
[[nodiscard]] std::string idle_text(int rank, const std::string& why, const std::string& spans);

/// The spans of a rank that are printed at a timeout.
[[nodiscard]] std::string last_spans(int rank);

/// Text such as "2.0 s".
[[nodiscard]] std::string tenths_text(std::chrono::milliseconds time);

/// The identity of a message between two ranks, which both sides state.
struct Label {
    Traffic traffic{};
    std::uint64_t number = 0;
    std::size_t bytes = 0;

    bool operator==(const Label&) const = default;
};

/// "parameters (message 7)".
[[nodiscard]] std::string message_text(const Label& label);

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

/// The message that others get about a rank that has left: its reason. If it ended because of an
/// earlier message, they get that one, so that the first cause reaches all ranks.
[[nodiscard]] std::string end_text(int rank, const std::string& reason, const std::string& told);

/// Throws std::invalid_argument unless `rank` may exchange messages with `peer`.
void check_peer(int peer, int rank, int size);

} // namespace truestep::distributed

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Finds out who is missing when the time is up, and sees to it that one rank alone says so and ends all.
///
/// Who has waited too long asks all others. Those that wait themselves answer, in whatever exchange they
/// are; those that do not answer are missing. Nothing is sent before something has gone wrong. The messages
/// are of one byte, and a communicator's messages never meet its collectives.
class MpiWatch {
  public:
    MpiWatch(MPI_Comm ranks, std::chrono::milliseconds timeout);

    /// To be called now and then by a rank that waits: answers those that ask.
    void answer(Traffic waits_in);

    /// The time is up. `where` is what this rank has waited in.
    [[noreturn]] void time_out(Traffic waits_in, const std::string& where);

    /// Ends all ranks with the reason. Does not return while MPI runs.
    void end(const std::string& reason) noexcept;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return static_cast<int>(answers_.size()); }
    [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  private:
    enum Message : int;

    void send(int to, Message message, Traffic traffic) const;
    void send_to_all(Message message, Traffic traffic) const;
    [[nodiscard]] bool receive(Message message, int& from, Traffic& traffic) const;
    void listen(Traffic waits_in, std::chrono::milliseconds duration);
    [[nodiscard]] std::string finding(Traffic waits_in, const std::string& where) const;

    MPI_Comm ranks_;
    std::chrono::milliseconds timeout_;
    int rank_ = 0;
    /// By rank: what it waits in, or that it has not said so.
    static constexpr std::uint8_t silent = traffic_kinds;
    std::vector<std::uint8_t> answers_;
    bool lower_asks_ = false; ///< a lower rank will speak in this rank's place
    bool lower_ends_ = false;
    bool other_ends_ = false;
};

/// MPI_Abort, after one line on standard error unless the text is empty.
[[noreturn]] void end_mpi(const std::string& text);

[[nodiscard]] bool mpi_runs();
[[nodiscard]] std::string mpi_error_text(int code);

} // namespace truestep::distributed

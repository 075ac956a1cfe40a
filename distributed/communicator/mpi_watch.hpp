#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Finds out which ranks are missing after the timeout, and makes one rank report it and end all.
///
/// A rank that has waited too long asks all others. Waiting ranks answer, in whatever exchange they
/// are; ranks that do not answer are missing. Nothing is sent before something has gone wrong. The
/// messages are of one byte, and a communicator's messages never meet its collectives.
class MpiWatch {
  public:
    MpiWatch(MPI_Comm ranks, std::chrono::milliseconds timeout);

    /// A waiting rank calls this now and then: it answers ranks that ask.
    void answer(Traffic waits_in);

    /// Handles the timeout. `where` names the exchange in which this rank has waited.
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
    /// The exchange in which each rank waits, or `silent` if it has not answered.
    static constexpr std::uint8_t silent = traffic_kinds;
    std::vector<std::uint8_t> answers_;
    bool lower_asks_ = false; ///< a lower rank will speak in this rank's place
    bool lower_ends_ = false;
    bool other_ends_ = false;
};

/// Calls MPI_Abort, after one line on standard error unless the text is empty.
[[noreturn]] void end_mpi(const std::string& text);

[[nodiscard]] bool mpi_runs();
[[nodiscard]] std::string mpi_error_text(int code);

} // namespace truestep::distributed

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Finds out which ranks are missing after the timeout, and makes one rank report it and end all.
///
/// A rank that has waited too long asks all others. Waiting ranks answer, in whatever exchange they
/// are; ranks that do not answer are missing. Nothing is sent before something has gone wrong. A
/// communicator's messages never meet its collectives.
class MpiWatch {
  public:
    /// What a rank waits for.
    struct Wait {
        Traffic traffic{};
        std::uint64_t number = 0;  ///< of the exchange, among all of the communicator
        std::uint64_t started = 0; ///< exchanges, by this rank
        std::chrono::milliseconds since{};
        bool in_set_up = false; ///< of the communicator, before its exchanges
    };

    MpiWatch(MPI_Comm ranks, std::chrono::milliseconds timeout);

    /// A waiting rank calls this now and then: it answers ranks that ask.
    void answer(const Wait& wait);

    /// Handles the timeout. `where` names the exchange in which this rank has waited.
    [[noreturn]] void time_out(const Wait& wait, const std::string& where);

    /// Ends all ranks with the reason. Does not return while MPI runs.
    void end(const std::string& reason) noexcept;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return static_cast<int>(answers_.size()); }
    [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  private:
    enum Message : int;

    /// A rank's answer.
    struct Answer {
        Wait wait;
        std::string spans; ///< the last ones of its timeline
    };

    void send(int to, Message message, const Wait& wait) const;
    void send_to_all(Message message, const Wait& wait) const;
    [[nodiscard]] bool receive(Message message, int& from, Answer& answer) const;
    void listen(const Wait& wait, std::chrono::milliseconds duration);
    void end_timeline();
    [[nodiscard]] std::string finding(const Wait& wait, const std::string& where) const;
    [[nodiscard]] std::string waits_report() const;
    [[nodiscard]] std::vector<int> awaited(const Wait& wait) const;

    MPI_Comm ranks_;
    std::chrono::milliseconds timeout_;
    int rank_ = 0;
    std::vector<std::optional<Answer>> answers_; ///< none: it has not answered
    std::string spans_;                          ///< this rank's last ones, once the job is about to end
    bool timeline_ended_ = false;
    bool lower_asks_ = false; ///< a lower rank will speak in this rank's place
    bool lower_ends_ = false;
    bool other_ends_ = false;
};

/// Calls MPI_Abort, after one line on standard error unless the text is empty, and below it the details,
/// which are whole lines.
[[noreturn]] void end_mpi(const std::string& text, const std::string& details = "");

[[nodiscard]] bool mpi_runs();
[[nodiscard]] std::string mpi_error_text(int code);

} // namespace truestep::distributed

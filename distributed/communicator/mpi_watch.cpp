// Finds the MPI ranks that miss an exchange after the timeout, and ends all with one report.
#include "mpi_watch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/timeline.hpp>

#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds between_looks{1};
/// How long two ranks that fail at the same time may take to learn of each other.
constexpr milliseconds courtesy{50};
/// How long another rank may take to end this one.
constexpr milliseconds resignation{5000};

/// MPICH's launcher drops what it has not read when a rank aborts. So this waits, for a limited
/// time, until the pipe to it is empty.
void until_it_is_read() {
    for (int waited = 0; waited < 1000; ++waited) {
        int unread = 0;
        if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0)
            return;
        std::this_thread::sleep_for(between_looks);
    }
}

} // namespace

/// High tags: while a communicator is being set up, the messages use the one from which it is made.
enum MpiWatch::Message : int { ask = 32'001, answer_tag, ending };

MpiWatch::MpiWatch(MPI_Comm ranks, milliseconds timeout) : ranks_(ranks), timeout_(timeout) {
    int size = 0;
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size);
    answers_.assign(static_cast<std::size_t>(size), silent);
}

void MpiWatch::answer(Traffic waits_in) {
    int from = 0;
    Traffic theirs{};
    while (receive(ask, from, theirs)) {
        send(from, answer_tag, waits_in);
        answers_[static_cast<std::size_t>(from)] = static_cast<std::uint8_t>(theirs);
        lower_asks_ = lower_asks_ || from < rank_;
    }
    while (receive(answer_tag, from, theirs))
        answers_[static_cast<std::size_t>(from)] = static_cast<std::uint8_t>(theirs);
    while (receive(ending, from, theirs)) {
        other_ends_ = true;
        lower_ends_ = lower_ends_ || from < rank_;
    }
}

void MpiWatch::time_out(Traffic waits_in, const std::string& where) {
    send_to_all(ask, waits_in);
    listen(waits_in, std::clamp(timeout_ / 4, milliseconds{200}, milliseconds{1000}));
    if (lower_asks_ || other_ends_) {
        listen(waits_in, resignation);
        end_mpi({});
    }
    end_mpi(finding(waits_in, where));
}

void MpiWatch::end(const std::string& reason) noexcept {
    if (mpi_runs()) {
        send_to_all(ending, Traffic::agreement);
        if (rank_ > 0)
            listen(Traffic::agreement, courtesy);
        if (lower_ends_) {
            listen(Traffic::agreement, resignation);
            end_mpi({});
        }
    }
    end_mpi(reason_text(rank_, reason));
}

/// Does not wait for the send, because the receiver may be dead. The byte has to stay in place, so
/// it is a constant.
void MpiWatch::send(int to, Message message, Traffic traffic) const {
    static constexpr std::array<std::uint8_t, traffic_kinds> kinds{0, 1, 2, 3, 4, 5};
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(&kinds.at(static_cast<std::size_t>(traffic)), 1, MPI_BYTE, to, message, ranks_,
                  &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): freed instead of waited for
}

void MpiWatch::send_to_all(Message message, Traffic traffic) const {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_)
            send(peer, message, traffic);
}

bool MpiWatch::receive(Message message, int& from, Traffic& traffic) const {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, message, ranks_, &there, &status) != MPI_SUCCESS || there == 0)
        return false;
    from = status.MPI_SOURCE;
    std::uint8_t kind = 0;
    MPI_Recv(&kind, 1, MPI_BYTE, from, message, ranks_, MPI_STATUS_IGNORE);
    traffic = static_cast<Traffic>(kind);
    return true;
}

void MpiWatch::listen(Traffic waits_in, milliseconds duration) {
    for (const auto end = Clock::now() + duration; Clock::now() < end;) {
        answer(waits_in);
        std::this_thread::sleep_for(between_looks);
    }
}

std::string MpiWatch::finding(Traffic waits_in, const std::string& where) const {
    std::vector<int> missing;
    std::string elsewhere;
    for (int peer = 0; peer < size(); ++peer) {
        const std::uint8_t answered = answers_[static_cast<std::size_t>(peer)];
        if (peer == rank_)
            continue;
        if (answered == silent)
            missing.push_back(peer);
        else if (answered != static_cast<std::uint8_t>(waits_in))
            elsewhere +=
                ", rank " + std::to_string(peer) + " in " + exchange_text(static_cast<Traffic>(answered));
    }
    if (!missing.empty())
        return missing_text(missing, timeout_, where);
    // The order of exchanges differs between ranks.
    return where + " did not end within its time: all ranks wait, rank " + std::to_string(rank_) + " in " +
           where + elsewhere;
}

void end_mpi(const std::string& text) {
    if (!text.empty()) {
        std::fputs(("truestep: " + text + "; all ranks end\n").c_str(), stderr);
        until_it_is_read();
    }
    problem::Timeline::write();
    if (mpi_runs())
        MPI_Abort(MPI_COMM_WORLD, mpi_abort_status);
    std::_Exit(mpi_abort_status);
}

bool mpi_runs() {
    int started = 0;
    int ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started != 0 && ended == 0;
}

std::string mpi_error_text(int code) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    return {text.data(), static_cast<std::size_t>(length)};
}

} // namespace truestep::distributed

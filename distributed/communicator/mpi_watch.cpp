// Finds the MPI ranks that miss an exchange after the timeout, and ends all with one report.
#include "mpi_watch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <thread>
#include <utility>

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
    answers_.resize(static_cast<std::size_t>(size));
}

void MpiWatch::answer(const Wait& wait) {
    int from = 0;
    Answer theirs;
    while (receive(ask, from, theirs)) {
        end_timeline();
        send(from, answer_tag, wait);
        answers_[static_cast<std::size_t>(from)] = theirs;
        lower_asks_ = lower_asks_ || from < rank_;
    }
    while (receive(answer_tag, from, theirs))
        answers_[static_cast<std::size_t>(from)] = theirs;
    while (receive(ending, from, theirs)) {
        other_ends_ = true;
        lower_ends_ = lower_ends_ || from < rank_;
    }
}

void MpiWatch::time_out(const Wait& wait, const std::string& where) {
    end_timeline();
    send_to_all(ask, wait);
    listen(wait, std::clamp(timeout_ / 4, milliseconds{200}, milliseconds{1000}));
    if (lower_asks_ || other_ends_) {
        listen(wait, resignation);
        end_mpi({});
    }
    answers_[static_cast<std::size_t>(rank_)] = {.wait = wait, .spans = spans_};
    end_mpi(finding(wait, where), waits_report());
}

/// The rank that asked ends the job, and nothing runs any more on the others.
void MpiWatch::end_timeline() {
    if (std::exchange(timeline_ended_, true))
        return;
    spans_ = last_spans(rank_);
    problem::Timeline::write();
}

void MpiWatch::end(const std::string& reason) noexcept {
    if (mpi_runs()) {
        send_to_all(ending, {});
        if (rank_ > 0)
            listen({}, courtesy);
        if (lower_ends_) {
            listen({}, resignation);
            end_mpi({});
        }
    }
    end_mpi(reason_text(rank_, reason));
}

/// Does not wait for the send, because the receiver may be dead. MPI may read the bytes for as long as the
/// process lives.
void MpiWatch::send(int to, Message message, const Wait& wait) const {
    static std::list<std::string> sent;
    const std::string& bytes =
        sent.emplace_back(std::string(reinterpret_cast<const char*>(&wait), sizeof wait) + spans_);
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, message, ranks_, &request) ==
        MPI_SUCCESS)
        MPI_Request_free(&request);
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): freed instead of waited for
}

void MpiWatch::send_to_all(Message message, const Wait& wait) const {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_)
            send(peer, message, wait);
}

bool MpiWatch::receive(Message message, int& from, Answer& answer) const {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, message, ranks_, &there, &status) != MPI_SUCCESS || there == 0)
        return false;
    from = status.MPI_SOURCE;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::string bytes(static_cast<std::size_t>(size), '\0');
    MPI_Recv(bytes.data(), size, MPI_BYTE, from, message, ranks_, MPI_STATUS_IGNORE);
    std::memcpy(&answer.wait, bytes.data(), sizeof answer.wait);
    answer.spans = bytes.substr(sizeof answer.wait);
    return true;
}

void MpiWatch::listen(const Wait& wait, milliseconds duration) {
    for (const auto end = Clock::now() + duration; Clock::now() < end;) {
        answer(wait);
        std::this_thread::sleep_for(between_looks);
    }
}

std::string MpiWatch::finding(const Wait& wait, const std::string& where) const {
    std::vector<int> missing;
    std::string elsewhere;
    for (int peer = 0; peer < size(); ++peer) {
        const auto& answer = answers_[static_cast<std::size_t>(peer)];
        if (peer == rank_)
            continue;
        if (!answer)
            missing.push_back(peer);
        else if (answer->wait.traffic != wait.traffic)
            elsewhere += ", rank " + std::to_string(peer) + " in " + exchange_text(answer->wait.traffic);
    }
    if (!missing.empty())
        return missing_text(missing, timeout_, where);
    // The order of exchanges differs between ranks.
    return where + " did not end within its time: all ranks wait, rank " + std::to_string(rank_) + " in " +
           where + elsewhere;
}

/// The ranks that, as far as is known, have not come to the exchange.
std::vector<int> MpiWatch::awaited(const Wait& wait) const {
    std::vector<int> ranks;
    for (int peer = 0; peer < size(); ++peer)
        if (const auto& answer = answers_[static_cast<std::size_t>(peer)];
            !answer || answer->wait.started <= wait.number)
            ranks.push_back(peer);
    return ranks;
}

std::string MpiWatch::waits_report() const {
    const auto where = [](const Wait& wait) {
        return wait.in_set_up
                   ? "the set-up of the communicator"
                   : exchange_text(wait.traffic) + " (number " + std::to_string(wait.number) + ")";
    };
    std::string text;
    for (int peer = 0; peer < size(); ++peer)
        if (const auto& answer = answers_[static_cast<std::size_t>(peer)]; answer)
            text += wait_text(peer, answer->wait.since, awaited(answer->wait), where(answer->wait),
                              answer->spans);
        else
            text += idle_text(peer, ", or is dead: it gave no answer", "");
    return text;
}

void end_mpi(const std::string& text, const std::string& details) {
    if (!text.empty()) {
        std::fputs(("truestep: " + text + "; all ranks end\n" + details).c_str(), stderr);
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

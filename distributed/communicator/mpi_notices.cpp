// Sends and receives the short notices by which MPI ranks ask for and announce messages.
#include "mpi_notices.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mpi_watch.hpp"

namespace truestep::distributed {

namespace {

/// A notice on the wire, before its text.
struct Head {
    std::uint64_t number;
    std::uint64_t bytes;
    std::uint64_t count;
    Notice::Kind kind;
    Notice::End end;
    Traffic traffic;
};

constexpr std::size_t longest_text = 1000;

} // namespace

void check_mpi(int code) {
    if (code == MPI_SUCCESS)
        return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    end_mpi(reason_text(rank, "MPI reports in a message: " + mpi_error_text(code)));
}

MpiNotices::MpiNotices(MPI_Comm ranks) : ranks_(ranks), place_(sizeof(Head) + longest_text) {
    post();
}

MpiNotices::~MpiNotices() {
    if (mpi_runs())
        stop();
}

/// Notices that a hanging rank has not taken are kept, because MPI may still read them.
void MpiNotices::stop() {
    static std::list<Sent> never_taken;
    if (!std::exchange(stopped_, true)) {
        MPI_Status status;
        int cancelled = 0;
        MPI_Cancel(&posted_);
        MPI_Wait(&posted_, &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (cancelled == 0)
            last_ = status;
    }
    if (!all_sent())
        never_taken.splice(never_taken.end(), sent_);
}

void MpiNotices::post() {
    check_mpi(MPI_Irecv(place_.data(), static_cast<int>(place_.size()), MPI_BYTE, MPI_ANY_SOURCE, tag,
                        ranks_, &posted_));
}

void MpiNotices::send(int to, const Notice& notice) {
    Head head{};
    head.number = notice.label.number;
    head.bytes = notice.label.bytes;
    head.count = notice.count;
    head.kind = notice.kind;
    head.end = notice.end;
    head.traffic = notice.label.traffic;
    const std::size_t text = std::min(notice.text.size(), longest_text);
    Sent& sent = sent_.emplace_back();
    sent.bytes.resize(sizeof head + text);
    std::memcpy(sent.bytes.data(), &head, sizeof head);
    std::memcpy(sent.bytes.data() + sizeof head, notice.text.data(), text);
    check_mpi(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, to, tag, ranks_,
                        &sent.request));
}

bool MpiNotices::arrives(MPI_Status& status) {
    int there = 0;
    if (!stopped_) {
        check_mpi(MPI_Test(&posted_, &there, &status));
        return there != 0;
    }
    if (last_) {
        status = *std::exchange(last_, std::nullopt);
        return true;
    }
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, ranks_, &there, &status));
    if (there != 0)
        check_mpi(MPI_Recv(place_.data(), static_cast<int>(place_.size()), MPI_BYTE, status.MPI_SOURCE, tag,
                           ranks_, &status));
    return there != 0;
}

bool MpiNotices::receive(int& from, Notice& notice) {
    MPI_Status status;
    if (!arrives(status))
        return false;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    Head head{};
    std::memcpy(&head, place_.data(), sizeof head);
    const auto* const text = reinterpret_cast<const char*>(place_.data() + sizeof head);
    from = status.MPI_SOURCE;
    notice = {.kind = head.kind,
              .end = head.end,
              .label = {.traffic = head.traffic, .number = head.number, .bytes = head.bytes},
              .count = head.count,
              .text = {text, static_cast<std::size_t>(size) - sizeof head}};
    if (!stopped_)
        post();
    return true;
}

bool MpiNotices::all_sent() {
    std::erase_if(sent_, [](Sent& sent) {
        int done = 0;
        check_mpi(MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE));
        return done != 0;
    });
    return sent_.empty();
}

} // namespace truestep::distributed

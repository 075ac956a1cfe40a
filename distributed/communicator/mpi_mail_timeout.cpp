// Finds out, when a message between MPI ranks is late, who holds it up, and prints for whom each rank
// waits.
#include "mpi_mail.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "mpi_ranks.hpp"

namespace truestep::distributed {

using std::chrono::milliseconds;

/// Asks all ranks for whom they wait, because a waiting rank is itself held up. Returns if the message
/// comes after all.
void MpiMail::time_out(const MpiArrival& arrival, std::size_t bytes) {
    std::vector<int> asked;
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_ && !at(peer).end) {
            at(peer).answer.reset();
            notices_->send(peer, {.kind = Notice::Kind::ask});
            asked.push_back(peer);
        }
    const auto has_answered = [&](int peer) { return at(peer).answer || at(peer).end; };
    Patience patience(std::clamp(options_.timeout / 4, milliseconds{200}, milliseconds{1000}));
    for (;;) {
        progress();
        if (arrival.has(bytes) || arrival.is_another())
            return;
        if (arrival.never)
            end_by(arrival.peer, arrival.awaited);
        if (patience.over() || std::ranges::all_of(asked, has_answered))
            break;
        (void)patience.pause();
    }
    const int last = who_holds_up(arrival.peer);
    report_waits(last);
    const std::string text = late_text(arrival.peer, arrival.awaited, rank_, options_.timeout);
    if (last == arrival.peer)
        end(text, false);
    end(text + "; rank " + std::to_string(last) + " holds it up", true);
}

/// The last of those that wait for each other, or, if they wait in a circle, this rank.
int MpiMail::who_holds_up(int late) const {
    int last = late;
    for (int turn = 0; turn < size() && last != rank_; ++turn) {
        const auto& answer = peers_[static_cast<std::size_t>(last)].answer;
        if (!answer || answer->waits_for == Notice::none)
            break;
        last = static_cast<int>(answer->waits_for);
    }
    return last;
}

/// This rank's line in a report.
std::string MpiMail::wait_line() const {
    const std::string spans = last_spans(rank_);
    if (!waits_since_)
        return idle_text(rank_, ", and never has", spans);
    const auto since =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - *waits_since_);
    if (waits_for_ == Notice::none)
        return idle_text(rank_,
                         ": its last wait, in " + message_text(waits_in_) + ", began " +
                             tenths_text(since) + " ago",
                         spans);
    const std::array<int, 1> awaited{static_cast<int>(waits_for_)};
    return wait_text(rank_, since, awaited, message_text(waits_in_), spans);
}

/// Several ranks may wait for the one that holds all up; the lowest of them speaks.
void MpiMail::report_waits(int last) const {
    std::string text;
    for (int peer = 0; peer < size(); ++peer) {
        const Peer& other = peers_[static_cast<std::size_t>(peer)];
        if (peer < rank_ && other.answer && other.answer->waits_for == static_cast<std::uint64_t>(last))
            return;
        if (peer == rank_)
            text += wait_line();
        else if (other.answer)
            text += other.answer->line;
        else
            text += idle_text(peer, other.end ? ": it has left" : ", or is dead: it gave no answer", "");
    }
    if (waits_for_ == static_cast<std::uint64_t>(last))
        std::fputs(text.c_str(), stderr);
}

} // namespace truestep::distributed

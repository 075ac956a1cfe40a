// Carries all messages of one MPI rank: requests, announcements, pieces, timeouts and ends.
#include "mpi_mail.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <truestep/problem/tunable.hpp>

#include "mpi_ranks.hpp"
#include "mpi_watch.hpp"

namespace truestep::distributed {

namespace {

/// How long another rank may take to end this one.
constexpr std::chrono::milliseconds resignation{5000};

/// Small numbers, which every MPI supports. This many messages from one peer may be under way at
/// once.
int tag_of(std::uint64_t sequence) {
    static_assert(MpiNotices::tag == 0);
    return static_cast<int>(1 + sequence % 32'000);
}

/// A communicator is freed when all others have said that nothing more comes from them: MPI may
/// give its place to the next one, with late messages. No rank waits for that.
struct ClosedCommunicator {
    MPI_Comm ranks;
    std::unique_ptr<MpiNotices> notices;
    std::size_t others;

    bool free_if_all_have_gone() {
        int from = 0;
        Notice notice;
        while (notices->receive(from, notice))
            if (notice.kind == Notice::Kind::gone)
                --others;
        if (others > 0)
            return false;
        notices.reset();
        MPI_Comm_free(&ranks);
        return true;
    }
};

std::list<ClosedCommunicator>& departed() {
    static std::list<ClosedCommunicator> all;
    return all;
}

void free_departed() {
    std::erase_if(departed(), [](ClosedCommunicator& earlier) { return earlier.free_if_all_have_gone(); });
}

/// The first function that MPI_Finalize calls. MPI_Finalize waits for all ranks anyway; but a job
/// that ends while some of them wait in there may leave an mpirun (Open MPI's 4.1) that never ends.
/// Ending it here is safe.
int wait_until_all_have_gone(MPI_Comm /*self*/, int /*key*/, void* /*value*/, void* /*state*/) {
    for (Patience patience{std::chrono::milliseconds::zero()}; !departed().empty(); (void)patience.pause())
        free_departed();
    return MPI_SUCCESS;
}

void wait_in_finalize() {
    static bool waits = false;
    if (std::exchange(waits, true))
        return;
    int key = MPI_KEYVAL_INVALID;
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_until_all_have_gone, &key, nullptr));
    check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
}

} // namespace

bool MpiPieces::test() {
    for (; done_ < requests_.size(); ++done_) {
        int done = 0;
        check_mpi(MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE));
        if (done == 0)
            return false;
    }
    return true;
}

MpiMail::MpiMail(MPI_Comm ranks, MpiOptions options)
    : options_(options), ranks_(duplicate_ranks(ranks, options)) {
    int size = 0;
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size);
    peers_.resize(static_cast<std::size_t>(size));
    notices_ = std::make_unique<MpiNotices>(ranks_);
    free_departed();
    wait_in_finalize();
}

void MpiMail::check(int peer) const {
    check_peer(peer, rank_, size());
    if (own_end_)
        throw std::logic_error("rank " + std::to_string(rank_) + " has left");
}

/// Handles arrivals first: a peer may have ended, and takes nothing any more.
void MpiMail::send(int to, const Label& label, std::shared_ptr<const void> message) {
    progress();
    Peer& peer = at(to);
    const std::uint64_t sequence = peer.sent++;
    if (peer.end)
        return;
    peer.queue.push_back({to, sequence, label, std::move(message)});
    start(to);
}

void MpiMail::start(int to) {
    Peer& peer = at(to);
    for (; peer.wanted > 0 && !peer.queue.empty(); --peer.wanted) {
        OutgoingMessage& message = sending_.emplace_back(std::move(peer.queue.front()));
        peer.queue.pop_front();
        const std::size_t piece =
            std::min(problem::tunable<std::size_t>("mail_piece"), options_.largest_count);
        notices_->send(to, {.kind = Notice::Kind::coming, .label = message.label, .count = piece});
        const auto* const data = static_cast<const std::byte*>(message.message.get());
        message.pieces.start(message.label.bytes, piece,
                             [&](std::size_t begin, int count, MPI_Request* request) {
                                 check_mpi(MPI_Isend(data + begin, count, MPI_BYTE, to,
                                                     tag_of(message.sequence), ranks_, request));
                             });
    }
}

std::shared_ptr<MpiArrival> MpiMail::ask_for(int from, const Label& label) {
    progress();
    Peer& peer = at(from);
    auto arrival = std::make_shared<MpiArrival>(
        MpiArrival{.peer = from, .sequence = peer.asked_in_all++, .awaited = label});
    if (peer.end && arrival->sequence >= peer.end->messages) {
        arrival->never = true;
        return arrival;
    }
    peer.asked.push_back(arrival);
    notices_->send(from, {.kind = Notice::Kind::want});
    return arrival;
}

void MpiMail::wait(const MpiArrival& arrival, std::size_t bytes) {
    if (!arrival.has(bytes)) {
        check(arrival.peer);
        waits_for_ = static_cast<std::uint64_t>(arrival.peer);
        waits_in_ = arrival.awaited;
        waits_since_ = std::chrono::steady_clock::now();
        Patience patience(options_.timeout);
        for (progress(); !arrival.has(bytes) && !arrival.is_another(); progress()) {
            if (arrival.never)
                end_by(arrival.peer, arrival.awaited);
            if (patience.pause() && patience.over()) {
                time_out(arrival, bytes);
                break;
            }
        }
        waits_for_ = Notice::none;
    }
    if (arrival.is_another())
        end(other_text(arrival.peer, arrival.sent, rank_, arrival.awaited), false);
}

void MpiMail::end_by(int peer, const Label& awaited) {
    const std::string& text = at(peer).end->text;
    if (text.empty())
        end(left_text(peer, awaited, rank_), false);
    end(text, true);
}

void MpiMail::end(const std::string& text, bool by_another) {
    told_ = text;
    told_by_another_ = by_another;
    throw Aborted(text);
}

void MpiMail::drop(MpiArrival& arrival) {
    arrival.dropped = true;
    if (arrival.complete)
        recycle(arrival.buffer);
}

/// Keeps as many buffers as have been in use at once.
void MpiMail::recycle(std::vector<std::byte>& buffer) {
    if (buffer.empty())
        return;
    if (!buffers_.empty() && buffers_.front().size() != buffer.size())
        buffers_.clear();
    buffers_.push_back(std::move(buffer));
}

void MpiMail::progress() {
    int from = 0;
    Notice notice;
    while (notices_->receive(from, notice))
        handle(from, notice);
    std::erase_if(sending_, [](OutgoingMessage& message) { return message.pieces.test(); });
    std::erase_if(arriving_, [this](const std::shared_ptr<MpiArrival>& arrival) {
        arrival->complete = arrival->pieces.test();
        if (arrival->complete && arrival->dropped)
            recycle(arrival->buffer);
        return arrival->complete;
    });
    (void)notices_->all_sent();
}

void MpiMail::handle(int from, const Notice& notice) {
    Peer& peer = at(from);
    switch (notice.kind) {
    case Notice::Kind::want:
        ++peer.wanted;
        start(from);
        break;
    case Notice::Kind::coming:
        arriving_.push_back(std::move(peer.asked.front()));
        peer.asked.pop_front();
        come(*arriving_.back(), notice);
        break;
    case Notice::Kind::released:
        peer.asked.clear();
        break;
    case Notice::Kind::ended:
        handle_end(from, notice);
        break;
    case Notice::Kind::ask:
        notices_->send(from, {.kind = Notice::Kind::answer, .count = waits_for_, .text = wait_line()});
        break;
    case Notice::Kind::answer:
        peer.answer = {.waits_for = notice.count, .line = notice.text};
        break;
    case Notice::Kind::gone:
        peer.gone = true;
        break;
    }
}

void MpiMail::come(MpiArrival& arrival, const Notice& notice) {
    arrival.sent = notice.label;
    arrival.coming = true;
    if (!buffers_.empty() && buffers_.back().size() == notice.label.bytes) {
        arrival.buffer = std::move(buffers_.back());
        buffers_.pop_back();
    } else {
        arrival.buffer.resize(notice.label.bytes);
    }
    arrival.pieces.start(notice.label.bytes, notice.count,
                         [&](std::size_t begin, int count, MPI_Request* request) {
                             check_mpi(MPI_Irecv(arrival.buffer.data() + begin, count, MPI_BYTE,
                                                 arrival.peer, tag_of(arrival.sequence), ranks_, request));
                         });
}

/// The peer takes nothing any more, but what it has sent still comes. If it has asked for more than
/// it got, it waits to hear whether that is on its way.
void MpiMail::handle_end(int from, const Notice& notice) {
    Peer& peer = at(from);
    peer.end = End{.how = notice.end, .messages = notice.count, .text = notice.text};
    peer.queue.clear();
    if (std::exchange(peer.wanted, 0) > 0)
        notices_->send(from, {.kind = Notice::Kind::released});
    std::erase_if(peer.asked, [&](const std::shared_ptr<MpiArrival>& arrival) {
        arrival->never = arrival->sequence >= notice.count;
        return arrival->never;
    });
}

void MpiMail::leave(const std::string& reason) {
    if (own_end_)
        return;
    own_end_ = End{.how = Notice::End::well, .messages = 0, .text = end_text(rank_, reason, told_)};
    if (!reason.empty())
        own_end_->how =
            own_end_->text == reason && told_by_another_ ? Notice::End::by_another : Notice::End::by_itself;
    announce();
}

void MpiMail::announce() {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_)
            notices_->send(peer, {.kind = Notice::Kind::ended,
                                  .end = own_end_->how,
                                  .count = at(peer).sent,
                                  .text = own_end_->text});
}

/// A rank that ends well waits only for the ranks that have not yet taken what it has sent.
void MpiMail::finish() {
    Patience patience(options_.timeout);
    while ((own_end_->how == Notice::End::well || !options_.ends_job) && !quiet()) {
        if (!patience.pause() || !patience.over())
            continue;
        const std::string fault = untaken();
        if (fault.empty() || !options_.ends_job)
            break;
        own_end_ = End{.how = Notice::End::by_itself, .messages = 0, .text = fault};
        announce();
    }
    if (own_end_->how != Notice::End::well && options_.ends_job)
        end_job();
    go();
}

void MpiMail::go() {
    std::size_t others = 0;
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_) {
            notices_->send(peer, {.kind = Notice::Kind::gone});
            others += at(peer).gone ? 0U : 1U;
        }
    notices_->stop();
    departed().push_back({ranks_, std::move(notices_), others});
    // MPI may still read these messages and write these buffers, where the peer was late.
    static std::list<OutgoingMessage> untaken;
    static std::list<std::shared_ptr<MpiArrival>> late;
    untaken.splice(untaken.end(), sending_);
    late.insert(late.end(), arriving_.begin(), arriving_.end());
}

bool MpiMail::quiet() {
    progress();
    return sending_.empty() && arriving_.empty() && notices_->all_sent() &&
           std::ranges::all_of(peers_,
                               [](const Peer& peer) { return peer.queue.empty() && peer.asked.empty(); });
}

std::string MpiMail::untaken() const {
    if (!sending_.empty())
        return untaken_text(sending_.front().peer, sending_.front().label, rank_, options_.timeout);
    for (const Peer& peer : peers_)
        if (!peer.queue.empty())
            return untaken_text(peer.queue.front().peer, peer.queue.front().label, rank_, options_.timeout);
    if (!arriving_.empty())
        return late_text(arriving_.front()->peer, arriving_.front()->sent, rank_, options_.timeout);
    return {};
}

/// Ranks that do not depend on this one continue to their end, or as long as the timeout allows. By
/// then all that have failed know of each other, and one of them prints the error.
void MpiMail::end_job() {
    for (Patience patience(options_.timeout); !all_others_ended() && !patience.over();
         (void)patience.pause())
        progress();
    if (!speaks())
        for (Patience patience(options_.timeout + resignation); !patience.over(); (void)patience.pause())
            progress();
    end_mpi(own_end_->text);
}

bool MpiMail::all_others_ended() const {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank_ && !peers_[static_cast<std::size_t>(peer)].end)
            return false;
    return true;
}

/// The speaker is the lowest of the ranks with an error of their own, or else of those that have
/// failed.
bool MpiMail::speaks() const {
    for (int peer = 0; peer < size(); ++peer) {
        const auto& end = peers_[static_cast<std::size_t>(peer)].end;
        if (peer == rank_ || !end)
            continue;
        if (end->how > own_end_->how || (end->how == own_end_->how && peer < rank_))
            return false;
    }
    return true;
}

} // namespace truestep::distributed

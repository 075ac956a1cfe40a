// Passes messages between ranks that are threads; receivers read the senders' bytes in place.
#include <truestep/distributed/in_process_peers.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/timeline.hpp>

#include "rank_threads.hpp"
#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {
namespace in_process {

struct Letter {
    Label label;
    std::shared_ptr<const void> message;
};

/// The place where one letter is awaited. It is under its mailbox's mutex until `come`; then it
/// belongs to its receiver.
struct Slot {
    bool come = false;
    bool dropped = false;
    Letter letter;
};

/// All letters from one rank to another. Either letters wait for slots, or slots for letters.
struct Channel {
    std::deque<Letter> letters;
    std::deque<std::shared_ptr<Slot>> slots;
    bool ended = false;
    std::string end; ///< the message about a sender that has left; "": it has not
};

/// Everything that one rank receives.
struct Mailbox {
    explicit Mailbox(std::size_t ranks) : from(ranks) {}

    std::mutex mutex;
    std::condition_variable changed; ///< only the receiver sleeps on it
    std::vector<Channel> from;
    bool closed = false;
    std::optional<std::size_t> waits_for; ///< stays set after a wait that failed
    Label awaited;                        ///< by the last wait
    std::optional<std::chrono::steady_clock::time_point> waits_since; ///< likewise
};

class PeerGroup {
  public:
    PeerGroup(int size, std::chrono::milliseconds timeout)
        : timeout_(timeout), claimed_(static_cast<std::size_t>(size)) {
        for (std::size_t rank = 0; rank < claimed_.size(); ++rank)
            boxes_.push_back(std::make_unique<Mailbox>(claimed_.size()));
    }

    [[nodiscard]] int size() const { return static_cast<int>(boxes_.size()); }
    [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

    void claim(int rank) {
        const std::lock_guard lock(mutex_);
        if (claimed_.at(static_cast<std::size_t>(rank)))
            throw std::logic_error("the peers of rank " + std::to_string(rank) + " have been handed out");
        claimed_[static_cast<std::size_t>(rank)] = true;
    }

    /// A letter that is never received is destroyed with the argument, outside of the mutex:
    /// destroying a message runs its sender's code.
    void send(int from, int to, Letter letter) {
        Mailbox& box = box_of(to);
        {
            const std::lock_guard lock(box.mutex);
            if (box.closed)
                return;
            Channel& channel = box.from[static_cast<std::size_t>(from)];
            if (channel.slots.empty()) {
                channel.letters.push_back(std::move(letter));
                return;
            }
            const std::shared_ptr<Slot> slot = std::move(channel.slots.front());
            channel.slots.pop_front();
            if (slot->dropped)
                return;
            slot->letter = std::move(letter);
            slot->come = true;
        }
        box.changed.notify_one();
    }

    [[nodiscard]] std::shared_ptr<Slot> await(int rank, int peer) {
        auto slot = std::make_shared<Slot>();
        Mailbox& box = box_of(rank);
        const std::lock_guard lock(box.mutex);
        Channel& channel = box.from[static_cast<std::size_t>(peer)];
        if (channel.letters.empty()) {
            channel.slots.push_back(slot);
            return slot;
        }
        slot->letter = std::move(channel.letters.front());
        slot->come = true;
        channel.letters.pop_front();
        return slot;
    }

    /// Returns when the letter has come, or else the message about the peer.
    [[nodiscard]] std::string wait(const Slot& slot, int rank, int peer, const Label& label) {
        const auto now = std::chrono::steady_clock::now();
        const auto deadline = now + timeout_;
        Mailbox& box = box_of(rank);
        {
            std::unique_lock lock(box.mutex);
            const Channel& channel = box.from[static_cast<std::size_t>(peer)];
            box.waits_for = static_cast<std::size_t>(peer);
            box.awaited = label;
            box.waits_since = now;
            const bool over =
                !box.changed.wait_until(lock, deadline, [&] { return slot.come || channel.ended; });
            if (slot.come) {
                box.waits_for.reset();
                return {};
            }
            if (!over)
                return told_of(channel, rank, peer, label);
        }
        const int last = who_holds_up(peer, rank);
        const std::string waits = waits_report();
        if (!reported_.exchange(true))
            std::fputs(waits.c_str(), stderr);
        const std::string text = late_text(peer, label, rank, timeout_);
        return last == peer ? text : text + "; rank " + std::to_string(last) + " holds it up";
    }

    /// The message about a peer that has ended; empty while it is running.
    [[nodiscard]] std::string end_of(int rank, int peer, const Label& label) {
        Mailbox& box = box_of(rank);
        const std::lock_guard lock(box.mutex);
        const Channel& channel = box.from[static_cast<std::size_t>(peer)];
        return channel.ended ? told_of(channel, rank, peer, label) : std::string();
    }

    /// Gives up a letter for which no code waits any more. Returns it if it has come by now.
    [[nodiscard]] Letter drop(Slot& slot, int rank) {
        const std::lock_guard lock(box_of(rank).mutex);
        slot.dropped = true;
        return std::move(slot.letter);
    }

    void leave(int rank, const std::string& end) {
        const std::vector<Channel> unread = close(box_of(rank));
        for (int peer = 0; peer < size(); ++peer) {
            Mailbox& box = box_of(peer);
            {
                const std::lock_guard lock(box.mutex);
                Channel& channel = box.from[static_cast<std::size_t>(rank)];
                channel.ended = true;
                channel.end = end;
            }
            box.changed.notify_one();
        }
    }

  private:
    [[nodiscard]] static std::string told_of(const Channel& channel, int rank, int peer,
                                             const Label& label) {
        return channel.end.empty() ? left_text(peer, label, rank) : channel.end;
    }

    [[nodiscard]] Mailbox& box_of(int rank) { return *boxes_[static_cast<std::size_t>(rank)]; }

    /// Returns the contents, which are to be destroyed outside of the mutex.
    [[nodiscard]] static std::vector<Channel> close(Mailbox& box) {
        std::vector<Channel> empty(box.from.size());
        const std::lock_guard lock(box.mutex);
        box.closed = true;
        std::swap(box.from, empty);
        return empty;
    }

    /// A rank that waits itself is not late. This is the last of those that wait for each other,
    /// or, if they wait in a circle, the rank that asks.
    [[nodiscard]] int who_holds_up(int late, int asks) {
        auto last = static_cast<std::size_t>(late);
        for (std::size_t turn = 0; turn < boxes_.size() && static_cast<int>(last) != asks; ++turn) {
            const std::lock_guard lock(boxes_[last]->mutex);
            if (!boxes_[last]->waits_for)
                break;
            last = *boxes_[last]->waits_for;
        }
        return static_cast<int>(last);
    }

    [[nodiscard]] std::string waits_report() {
        const auto now = std::chrono::steady_clock::now();
        std::string text;
        for (std::size_t rank = 0; rank < boxes_.size(); ++rank) {
            const Mailbox& box = *boxes_[rank];
            const std::string spans = last_spans(static_cast<int>(rank));
            const std::lock_guard lock(boxes_[rank]->mutex);
            if (!box.waits_since) {
                text += idle_text(static_cast<int>(rank), ", and never has", spans);
                continue;
            }
            const auto since =
                std::chrono::duration_cast<std::chrono::milliseconds>(now - *box.waits_since);
            const std::string where = message_text(box.awaited);
            if (box.waits_for) {
                const std::array<int, 1> awaited{static_cast<int>(*box.waits_for)};
                text += wait_text(static_cast<int>(rank), since, awaited, where, spans);
            } else {
                text += idle_text(static_cast<int>(rank),
                                  box.closed ? ": it has left"
                                             : ": its last wait, in " + where + ", began " +
                                                   tenths_text(since) + " ago",
                                  spans);
            }
        }
        return text;
    }

    const std::chrono::milliseconds timeout_;
    std::atomic<bool> reported_{false};
    std::mutex mutex_;
    std::vector<bool> claimed_;
    std::vector<std::unique_ptr<Mailbox>> boxes_;
};

namespace {

/// The data that a rank's Peers and its Incoming share.
struct RankSlot {
    std::shared_ptr<PeerGroup> group;
    int rank;
    bool left = false;
    std::string told{}; ///< the text of the last Aborted

    [[noreturn]] void end(const std::string& text) {
        told = text;
        throw Aborted(text);
    }

    void check(int peer) const {
        check_peer(peer, rank, group->size());
        if (left)
            throw std::logic_error("rank " + std::to_string(rank) + " has left");
    }
};

class TakenMessage final : public IncomingMessage {
  public:
    TakenMessage(std::shared_ptr<RankSlot> seat, int peer, const Label& label)
        : seat_(std::move(seat)), peer_(peer), label_(label),
          slot_(seat_->group->await(seat_->rank, peer)) {}
    TakenMessage(const TakenMessage&) = delete;
    TakenMessage& operator=(const TakenMessage&) = delete;
    ~TakenMessage() override {
        if (!come_)
            (void)seat_->group->drop(*slot_, seat_->rank);
    }

    const std::byte* wait(std::size_t bytes) override {
        if (bytes > label_.bytes)
            throw std::invalid_argument("a message of " + std::to_string(label_.bytes) +
                                        " bytes has no first " + std::to_string(bytes));
        if (!come_)
            come();
        return static_cast<const std::byte*>(slot_->letter.message.get());
    }

  private:
    void come() {
        seat_->check(peer_);
        problem::Span span(name(label_.traffic), seat_->rank);
        span.set_bytes(label_.bytes);
        span.set_awaited(peer_);
        const std::string fault = seat_->group->wait(*slot_, seat_->rank, peer_, label_);
        if (!fault.empty())
            seat_->end(fault);
        const Label& sent = slot_->letter.label;
        if (sent != label_)
            seat_->end(other_text(peer_, sent, seat_->rank, label_));
        come_ = true;
    }

    std::shared_ptr<RankSlot> seat_;
    int peer_;
    Label label_;
    std::shared_ptr<Slot> slot_;
    bool come_ = false;
};

class ThreadPeers final : public Peers {
  public:
    ThreadPeers(std::shared_ptr<PeerGroup> group, int rank)
        : seat_(std::make_shared<RankSlot>(RankSlot{.group = std::move(group), .rank = rank})) {
        seat_->group->claim(rank);
    }
    ThreadPeers(const ThreadPeers&) = delete;
    ThreadPeers& operator=(const ThreadPeers&) = delete;
    ~ThreadPeers() override { ThreadPeers::leave(""); }

    [[nodiscard]] int rank() const override { return seat_->rank; }
    [[nodiscard]] int size() const override { return seat_->group->size(); }
    [[nodiscard]] std::string name() const override { return "in_process"; }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        seat_->check(peer);
        seat_->group->send(rank(), peer,
                           {.label = {.traffic = traffic, .number = number, .bytes = bytes},
                            .message = std::move(message)});
    }

    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        seat_->check(peer);
        return std::make_unique<TakenMessage>(seat_, peer,
                                              Label{.traffic = traffic, .number = number, .bytes = bytes});
    }

    void must_go_on(Traffic traffic, int peer, std::uint64_t number) override {
        seat_->check(peer);
        const std::string text =
            seat_->group->end_of(rank(), peer, {.traffic = traffic, .number = number, .bytes = 0});
        if (!text.empty())
            seat_->end(text);
    }

    /// A message arrives as soon as it is sent.
    void progress() override {}

    void leave(const std::string& reason) noexcept override {
        if (!std::exchange(seat_->left, true))
            seat_->group->leave(rank(), end_text(rank(), reason, seat_->told));
    }

  private:
    std::shared_ptr<RankSlot> seat_;
};

} // namespace
} // namespace in_process

InProcessPeers::InProcessPeers(int size, std::chrono::milliseconds timeout) {
    if (size < 1)
        throw std::invalid_argument("a group needs at least one rank, not " + std::to_string(size));
    group_ = std::make_shared<in_process::PeerGroup>(size, timeout);
}

std::unique_ptr<Peers> InProcessPeers::peers(int rank) {
    if (rank < 0 || rank >= group_->size())
        throw std::invalid_argument("rank " + std::to_string(rank) + " is not one of " +
                                    std::to_string(group_->size()));
    return std::make_unique<in_process::ThreadPeers>(group_, rank);
}

void run_peers(int size, const std::function<void(Peers&)>& function, std::chrono::milliseconds timeout) {
    InProcessPeers group(size, timeout);
    std::vector<std::unique_ptr<Peers>> peers;
    peers.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank)
        peers.push_back(group.peers(rank));
    in_process::run_threads(std::move(peers), function,
                            [](Peers& mine, const std::string& reason) { mine.leave(reason); });
}

} // namespace truestep::distributed

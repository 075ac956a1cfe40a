// The interface through which pairs of ranks exchange messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Whether a sent message belongs to the caller alone again, and may be changed.
template <class Message>
[[nodiscard]] bool is_let_go(const std::shared_ptr<Message>& message) {
    if (message.use_count() != 1)
        return false;
    // The count by itself orders nothing. Destroying a copy synchronizes with the other holders,
    // which destroyed theirs after their last use.
    std::shared_ptr<Message>(message).reset();
    return true;
}

/// A message awaited from one peer.
class IncomingMessage {
  public:
    virtual ~IncomingMessage() = default;
    /// Returns when the first `bytes` of the message have arrived, with its beginning; the rest may
    /// still be on its way. They do not change as long as this object lives. Throws Aborted, which
    /// names the peer, if it has ended, failed, not answered in time, or sent another message. A
    /// rank that ends because of this passes the text unchanged to leave(), so that it names the
    /// cause to others, too.
    virtual const std::byte* wait(std::size_t bytes) = 0;
};

/// Messages between pairs of ranks: a rank waits only for the one whose message it needs. This is
/// the second way for ranks to exchange data; Communicator is the first.
///
/// Messages from one rank to another arrive in the order in which they were sent. Both sides state
/// a message's kind of traffic, number and size; if they disagree the receiver gets Aborted.
class Peers {
  public:
    virtual ~Peers() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;

    /// Sends the first `bytes` of `message` to `peer`. Returns at once, whatever the peer does, and
    /// avoids copies where possible. So the bytes must not change until is_let_go(message), which
    /// comes when the message has been taken, or will never be.
    virtual void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
                      std::size_t bytes) = 0;

    /// Asks for the next message from `peer`, which has to be this one. Started at once, waited for
    /// later; several may be under way, from one peer in their order. A message that is dropped
    /// before its arrival is discarded when it comes. If two ranks send to each other, ask before
    /// you send: the peer's message may wait until then, and yours until you call again.
    [[nodiscard]] virtual std::unique_ptr<IncomingMessage>
    receive(Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) = 0;

    /// Whether sent and received data lies in the host's memory. Otherwise only code that runs
    /// where it lies may read it.
    [[nodiscard]] virtual bool host_can_read(Traffic /*traffic*/) const { return true; }

    /// For a message that does not travel by these peers: throws what wait() for it would if its
    /// sender is known to have ended.
    virtual void must_go_on(Traffic /*traffic*/, int /*peer*/, std::uint64_t /*number*/) {}

    /// Stops waiting for everything under way. A rank that ends by an error calls it before it
    /// destroys what it computes with.
    virtual void abandon() noexcept {}

    /// Lets messages under way make progress. Call it during long computations.
    virtual void progress() = 0;

    /// This rank ends, and sends no more. What it has sent still arrives. Any other wait for it,
    /// now or later, gets Aborted with the reason, which may be "". Only the first call counts.
    virtual void leave(const std::string& reason) noexcept = 0;
};

/// Gathers one small record from each rank, in rank order. Involves all ranks together, for when
/// they begin.
template <class Record>
[[nodiscard]] std::vector<Record> gather_records(Peers& peers, const Record& mine) {
    static_assert(std::is_trivially_copyable_v<Record>);
    const auto record = std::make_shared<Record>(mine);
    std::vector<Record> all(static_cast<std::size_t>(peers.size()), mine);
    std::vector<std::unique_ptr<IncomingMessage>> incoming(all.size());
    for (int rank = 0; rank < peers.size(); ++rank)
        if (rank != peers.rank())
            incoming[static_cast<std::size_t>(rank)] =
                peers.receive(Traffic::agreement, rank, 0, sizeof(Record));
    for (int rank = 0; rank < peers.size(); ++rank)
        if (rank != peers.rank())
            peers.send(Traffic::agreement, rank, 0, record, sizeof(Record));
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (incoming[rank])
            std::memcpy(&all[rank], incoming[rank]->wait(sizeof(Record)), sizeof(Record));
    return all;
}

} // namespace truestep::distributed

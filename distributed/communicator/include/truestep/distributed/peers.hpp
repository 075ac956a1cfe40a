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

/// Whether a message that has been sent is the caller's alone again, and may be changed.
template <class Message>
[[nodiscard]] bool is_let_go(const std::shared_ptr<Message>& message) {
    if (message.use_count() != 1)
        return false;
    // The count by itself orders nothing. Letting a copy go comes after all that the others have done
    // before they let theirs go.
    std::shared_ptr<Message>(message).reset();
    return true;
}

/// A message that is awaited from one peer.
class Incoming {
  public:
    virtual ~Incoming() = default;
    /// Returns when the first `bytes` of the message are there, with its beginning; what follows them may
    /// still be on its way. They stay as they are for as long as this object lives. Throws Aborted, which
    /// names the peer, if it has ended, failed, not answered in time, or sent another message than this. A
    /// rank that ends because of this gives the text to leave() as it is: it names the cause to others,
    /// too.
    virtual const std::byte* wait(std::size_t bytes) = 0;
};

/// Messages between two ranks, and nothing that concerns all of them: no rank ever waits but for the one
/// whose message it needs. The second way for ranks to exchange data, beside Communicator.
///
/// Messages from one rank to another come in the order in which they were sent. Both sides say what a
/// message is (kind of traffic, number, size); where they disagree the receiver gets Aborted.
class Peers {
  public:
    virtual ~Peers() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;

    /// The first `bytes` of `message` go to `peer`. Returns at once, whatever the peer does, and does not
    /// copy where that can be avoided: nobody may change them until is_let_go(message), which it is
    /// when it has been taken, or will never be.
    virtual void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
                      std::size_t bytes) = 0;

    /// The next message from `peer`, which has to be this one. Started at once, waited for later; several
    /// may be under way, from one peer in their order. One that is dropped before it has come is discarded
    /// when it comes. Where two send to each other, ask before you send: the peer's message may wait until
    /// then, and yours until you call again.
    [[nodiscard]] virtual std::unique_ptr<Incoming> receive(Traffic traffic, int peer, std::uint64_t number,
                                                            std::size_t bytes) = 0;

    /// Whether what is sent and received stands in the host's memory. Otherwise only whoever works where it
    /// stands may look at it.
    [[nodiscard]] virtual bool host_can_read(Traffic /*traffic*/) const { return true; }

    /// Of a message that comes another way than by these peers: throws what wait() for it would if its
    /// sender has ended, as far as that is known.
    virtual void must_go_on(Traffic /*traffic*/, int /*peer*/, std::uint64_t /*number*/) {}

    /// Nothing that is under way is waited for any more: for whoever ends by an error, before what it
    /// computes with goes.
    virtual void abandon() noexcept {}

    /// Lets messages that are under way move on. Whoever computes for long may call it.
    virtual void progress() = 0;

    /// This rank ends, and sends no more. What it has sent still arrives; whoever waits for anything else
    /// from it, now or later, gets Aborted with the reason, "" where there is none to give. Only the first
    /// call counts.
    virtual void leave(const std::string& reason) noexcept = 0;
};

/// One small record from each rank, in rank order. Of all ranks together: for when they begin.
template <class Record>
[[nodiscard]] std::vector<Record> gather_records(Peers& peers, const Record& mine) {
    static_assert(std::is_trivially_copyable_v<Record>);
    const auto record = std::make_shared<Record>(mine);
    std::vector<Record> all(static_cast<std::size_t>(peers.size()), mine);
    std::vector<std::unique_ptr<Incoming>> incoming(all.size());
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

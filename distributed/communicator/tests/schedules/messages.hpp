#pragma once

#include <memory>

#include <truestep/distributed/peers.hpp>

#include "exchanges.hpp"

/// Messages of two bytes between two of three ranks.
namespace truestep::distributed::model {

using distributed::IncomingMessage;
using distributed::Peers;

constexpr std::size_t message_bytes = 2;

inline std::size_t rank_of(const Peers& peers) {
    return static_cast<std::size_t>(peers.rank());
}

/// A rank's own message, which it overwrites when all receivers have released it. Its end counts as
/// a write, too.
class Letter {
  public:
    void write(std::size_t from, std::size_t number) {
        for (std::size_t i = 0; i < message_bytes; ++i)
            buffer_->set(i, value(from, number, i));
    }
    void send(Peers& peers, std::size_t to, std::size_t number) {
        peers.send(Traffic::parameters, static_cast<int>(to), number, message_, message_bytes);
    }
    void until_it_is_let_go() const {
        while (!distributed::is_let_go(message_))
            yield();
    }

  private:
    /// The address of the bytes, with the owner that frees them.
    static Message holding(const std::shared_ptr<Buffer>& buffer) {
        return {std::shared_ptr<std::byte>(buffer, buffer->data())};
    }

    std::shared_ptr<Buffer> buffer_ = std::make_shared<Buffer>(message_bytes);
    Message message_ = holding(buffer_);
};

inline std::unique_ptr<IncomingMessage> receive(Peers& peers, std::size_t from, std::size_t number) {
    return peers.receive(Traffic::parameters, static_cast<int>(from), number, message_bytes);
}

inline void look(IncomingMessage& incoming, std::size_t from, std::size_t number) {
    const std::byte* const data = incoming.wait(message_bytes);
    for (std::size_t i = 0; i < message_bytes; ++i) {
        read(data + i, 1);
        expect(static_cast<int>(data[i]) == value(from, number, i),
               "a message has other bytes than were sent");
    }
}

inline void take(Peers& peers, std::size_t from, std::size_t number) {
    look(*receive(peers, from, number), from, number);
}

} // namespace truestep::distributed::model

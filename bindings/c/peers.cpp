// Provides C functions for peers: on the caller's own messages, or on threads.
#include "peers.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "communicator.hpp"
#include "started_action.hpp"

namespace truestep::abi {

namespace {

using distributed::IncomingMessage;
using distributed::Traffic;

using CalledMessage = StartedAction<truestep_messages>;

std::string told(const char* direction, int peer, std::uint64_t number) {
    return std::string("message ") + std::to_string(number) + direction + std::to_string(peer);
}

class CalledIncoming final : public IncomingMessage {
  public:
    CalledIncoming(const truestep_messages& functions, Traffic traffic, int peer, std::uint64_t number,
                   std::size_t bytes)
        : rank_(functions.rank), traffic_(traffic), peer_(peer), bytes_(bytes),
          data_(std::make_unique_for_overwrite<std::byte[]>(bytes)),
          message_(functions, told(" from rank ", peer, number), told(" from rank ", peer, number),
                   [&](void** message) {
                       return functions.receive(functions.self, static_cast<std::int32_t>(traffic), peer,
                                                number, data_.get(), bytes, message);
                   }) {}

    /// Callbacks can wait only for the whole message.
    const std::byte* wait(std::size_t bytes) override {
        if (bytes > bytes_)
            throw std::invalid_argument("a message of " + std::to_string(bytes_) + " bytes has no first " +
                                        std::to_string(bytes));
        problem::Span span(name(traffic_), rank_);
        span.set_bytes(bytes_);
        span.set_awaited(peer_);
        message_.wait();
        return data_.get();
    }

  private:
    int rank_;
    Traffic traffic_;
    int peer_;
    std::size_t bytes_;
    std::unique_ptr<std::byte[]> data_;
    CalledMessage message_;
};

/// The caller's functions as peers.
class CalledPeers final : public distributed::Peers {
  public:
    explicit CalledPeers(const truestep_messages& functions) : functions_(functions) {}

    [[nodiscard]] int rank() const override { return functions_.rank; }
    [[nodiscard]] int size() const override { return functions_.size; }
    [[nodiscard]] std::string name() const override { return "callbacks"; }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        const std::string what = told(" to rank ", peer, number);
        auto carried = std::make_unique<CalledMessage>(functions_, what, what, [&](void** handle) {
            return functions_.send(functions_.self, static_cast<std::int32_t>(traffic), peer, number,
                                   message.get(), bytes, handle);
        });
        sent_.push_back({std::move(message), std::move(carried)});
    }

    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        return std::make_unique<CalledIncoming>(functions_, traffic, peer, number, bytes);
    }

    void progress() override {
        if (functions_.progress != nullptr)
            functions_.progress(functions_.self);
    }

    // There is no callback for this: a failing rank leaves, and the caller's own messages notice.
    void leave(const std::string&) noexcept override {}

    /// Waits for all of them, even after one has failed.
    void settle() {
        const std::vector<Sent> sent = std::exchange(sent_, {});
        for (const Sent& one : sent)
            one.carried->wait();
    }

  private:
    /// The message outlives its sending.
    struct Sent {
        std::shared_ptr<const void> message;
        std::unique_ptr<CalledMessage> carried;
    };

    truestep_messages functions_;
    std::vector<Sent> sent_;
};

void check_messages(const truestep_messages& messages) {
    check_place(messages, "truestep_messages");
    if (messages.send == nullptr || messages.receive == nullptr || messages.wait == nullptr)
        throw Error("truestep_messages: send, receive or wait is NULL; give all three");
}

} // namespace

extern "C" {

truestep_status truestep_peers_create(const truestep_messages* messages, truestep_peers** peers) {
    return guarded([&] {
        const truestep_messages& functions = need(messages, "messages");
        need(peers, "peers");
        check_messages(functions);
        auto called = std::make_shared<CalledPeers>(functions);
        *peers = new truestep_peers{called, [called] { called->settle(); }};
    });
}

truestep_status truestep_group_peers(truestep_group* group, int32_t rank, truestep_peers** peers) {
    return guarded([&] {
        need(group, "group");
        need(peers, "peers");
        *peers = new truestep_peers{place_of([&] { return group->peers.peers(rank); })};
    });
}

void truestep_peers_destroy(truestep_peers* peers) {
    delete peers;
}

} // extern "C"

} // namespace truestep::abi

// Peers that record the bytes sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/peers.hpp>

namespace truestep::properties::mapl {

/// Passes messages to other peers, and records every byte sent, by what it is for.
class RecordingPeers final : public distributed::Peers {
  public:
    /// The bytes by time and receiver.
    using Wire = std::map<std::string, std::vector<std::uint8_t>>;
    /// The number under which a rank is recorded: its stage, or its replica.
    using Named = std::function<int(int rank)>;
    RecordingPeers(distributed::Peers& inner, Wire& wire, Named named)
        : inner_(inner), wire_(wire), named_(std::move(named)) {}

    std::string when{}; ///< what the rank is doing
    /// Changes a message on its way.
    using Damage = std::function<void(std::vector<std::uint8_t>&)>;
    Damage damage{}; ///< of the next message, if any

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    void send(distributed::Traffic traffic, int peer, std::uint64_t number,
              std::shared_ptr<const void> message, std::size_t bytes) override {
        note(peer, message.get(), bytes);
        if (damage)
            message = damaged(message.get(), bytes);
        inner_.send(traffic, peer, number, std::move(message), bytes);
    }
    [[nodiscard]] std::unique_ptr<distributed::IncomingMessage>
    receive(distributed::Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
        return inner_.receive(traffic, peer, number, bytes);
    }
    void must_go_on(distributed::Traffic traffic, int peer, std::uint64_t number) override {
        inner_.must_go_on(traffic, peer, number);
    }
    void abandon() noexcept override { inner_.abandon(); }
    void progress() override { inner_.progress(); }
    void leave(const std::string& reason) noexcept override { inner_.leave(reason); }

    /// For peers that bypass these, and record here.
    [[nodiscard]] distributed::Peers& inner() { return inner_; }
    void note(int peer, const void* message, std::size_t bytes);
    /// Reads a message that the host can only read later.
    using Reads = std::function<const std::byte*()>;
    void note_later(int peer, Reads reads, std::size_t bytes);
    /// Reads the messages that were noted for later.
    void settle();

  private:
    struct Pending {
        std::string key;
        std::size_t begin;
        std::size_t bytes;
        Reads reads;
    };

    std::shared_ptr<const void> damaged(const void* message, std::size_t bytes);

    distributed::Peers& inner_;
    Wire& wire_;
    Named named_;
    std::vector<Pending> pending_;
};

} // namespace truestep::properties::mapl

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

/// Other peers, and every byte that is sent while it is said what for.
class Tapped final : public distributed::Peers {
  public:
    /// By when, and to whom.
    using Wire = std::map<std::string, std::vector<std::uint8_t>>;
    /// Whom a rank is told to be: its stage, or its replica.
    using Named = std::function<int(int rank)>;
    Tapped(distributed::Peers& inner, Wire& wire, Named named)
        : inner_(inner), wire_(wire), named_(std::move(named)) {}

    std::string when{}; ///< what the rank is doing

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    void send(distributed::Traffic traffic, int peer, std::uint64_t number,
              std::shared_ptr<const void> message, std::size_t bytes) override {
        note(peer, message.get(), bytes);
        inner_.send(traffic, peer, number, std::move(message), bytes);
    }
    [[nodiscard]] std::unique_ptr<distributed::Incoming>
    receive(distributed::Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
        return inner_.receive(traffic, peer, number, bytes);
    }
    void must_go_on(distributed::Traffic traffic, int peer, std::uint64_t number) override {
        inner_.must_go_on(traffic, peer, number);
    }
    void abandon() noexcept override { inner_.abandon(); }
    void progress() override { inner_.progress(); }
    void leave(const std::string& reason) noexcept override { inner_.leave(reason); }

    /// For peers that carry messages past these, and note them here.
    [[nodiscard]] distributed::Peers& inner() { return inner_; }
    void note(int peer, const void* message, std::size_t bytes);
    /// A message that the host can only read later.
    using Reads = std::function<const std::byte*()>;
    void note_later(int peer, Reads reads, std::size_t bytes);
    /// Reads them.
    void settle();

  private:
    struct Pending {
        std::string key;
        std::size_t begin;
        std::size_t bytes;
        Reads reads;
    };

    distributed::Peers& inner_;
    Wire& wire_;
    Named named_;
    std::vector<Pending> pending_;
};

} // namespace truestep::properties::mapl

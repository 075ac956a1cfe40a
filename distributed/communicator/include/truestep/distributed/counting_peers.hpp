// Peers that count messages, and disturb them for tests.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

/// How CountingPeers disturbs messages, by kind of traffic. By default it does not.
struct PeerDisturbance {
    template <class Value>
    using ByTraffic = std::array<Value, traffic_kinds>;

    /// A wait() returns no sooner than this long after the message was asked for.
    ByTraffic<std::chrono::milliseconds> delay{};
    /// An additional delay by the sending rank; ranks beyond the end have none.
    std::vector<std::chrono::milliseconds> delay_from{};
    /// A message really goes only after this many further calls, or before this rank waits, makes
    /// progress or leaves, so that messages to other peers overtake it. Messages that go together
    /// go in the reverse order of peers.
    ByTraffic<unsigned> late_start{};
    /// The result of wait(bytes) holds nonsense beyond these bytes, and everywhere once the
    /// Incoming is gone. Only where the host can read it.
    ByTraffic<bool> hold_back{};
};

/// Wraps Peers and counts what this rank sends. Without a disturbance it serves for statistics.
/// With one it serves tests: a program that keeps the rules cannot notice it in its results.
class CountingPeers final : public Peers {
  public:
    struct Sent {
        std::uint64_t messages = 0;
        std::uint64_t bytes = 0;

        bool operator==(const Sent&) const = default;
    };

    /// `inner` has to outlive this object, and this object what it receives.
    explicit CountingPeers(Peers& inner, PeerDisturbance disturbance = {});
    ~CountingPeers() override;
    CountingPeers(const CountingPeers&) = delete;
    CountingPeers& operator=(const CountingPeers&) = delete;

    [[nodiscard]] Sent sent(Traffic traffic, int peer) const;
    [[nodiscard]] Sent sent(Traffic traffic) const;
    [[nodiscard]] Sent sent_to(int peer) const;
    [[nodiscard]] Bytes bytes() const;
    void reset();
    /// Disturbs the messages that are sent or asked for from here on.
    void disturb(PeerDisturbance disturbance) { disturbance_ = std::move(disturbance); }

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return inner_.host_can_read(traffic);
    }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override;
    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override;
    void must_go_on(Traffic traffic, int peer, std::uint64_t number) override {
        inner_.must_go_on(traffic, peer, number);
    }
    void abandon() noexcept override { inner_.abandon(); }
    void progress() override;
    void leave(const std::string& reason) noexcept override;

  private:
    class Disturbed;

    /// A message that has not really been sent yet.
    struct Late {
        Traffic traffic;
        int peer;
        std::uint64_t number;
        std::shared_ptr<const void> message;
        std::size_t bytes;
        unsigned calls_left;
    };

    void one_more_call();
    void send_all_to(int peer);
    void send_all();
    void bury(std::vector<std::byte> nonsense);

    Peers& inner_;
    PeerDisturbance disturbance_;
    std::vector<std::array<Sent, traffic_kinds>> sent_; ///< by peer
    std::deque<Late> late_;                             ///< in the order in which they were sent
    std::deque<std::vector<std::byte>> gone_;           ///< nonsense for receivers that kept a pointer
};

} // namespace truestep::distributed

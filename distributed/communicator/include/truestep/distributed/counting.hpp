// A communicator that counts exchanges, and disturbs them for tests.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// How a CountingCommunicator disturbs the exchanges, by kind of traffic. By default it does not.
struct Disturbance {
    template <class Value>
    using ByTraffic = std::array<Value, traffic_kinds>;

    /// wait() returns no sooner than this long after the start.
    ByTraffic<std::chrono::milliseconds> delay{};
    /// The exchange really starts only after this many further starts and waits, or when it is
    /// waited for, so that later exchanges overtake it. All ranks must use the same numbers, and
    /// wait in the same order.
    ByTraffic<unsigned> late_start{};
    /// Holds the data back: until wait() the place to receive it holds nonsense. Only where the
    /// host can read it.
    ByTraffic<bool> hold_back{};
    /// The exchange that is waited for completes last, after all that were started later.
    bool newest_first = false;
};

/// A test has cut the link of a rank.
class LinkLost : public std::runtime_error {
  public:
    explicit LinkLost(const std::string& text) : std::runtime_error(text) {}
};

/// Wraps a communicator and counts what it sends. Without a disturbance it serves for statistics.
/// Tests disturb it: a program that keeps the rules cannot notice that in its results. They also cut
/// links and damage what comes, which it has to notice.
class CountingCommunicator final : public Communicator {
  public:
    using Counts = std::array<std::uint64_t, traffic_kinds>;

    /// `inner` has to outlive this object, and this object its exchanges.
    explicit CountingCommunicator(Communicator& inner, const Disturbance& disturbance = {});
    ~CountingCommunicator() override;
    CountingCommunicator(const CountingCommunicator&) = delete;
    CountingCommunicator& operator=(const CountingCommunicator&) = delete;

    /// The bytes that this rank has sent to others, as the formulas of section 4 count them: for a
    /// gather its part to each of the others, for a reduce-scatter the parts of the others, however
    /// a library may route them.
    [[nodiscard]] const Bytes& bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t bytes(Traffic traffic) const {
        return bytes_[static_cast<std::size_t>(traffic)];
    }
    /// The number of exchanges that have been started.
    [[nodiscard]] const Counts& exchanges() const { return exchanges_; }
    [[nodiscard]] std::uint64_t exchanges(Traffic traffic) const {
        return exchanges_[static_cast<std::size_t>(traffic)];
    }
    /// The number of messages to others in these exchanges: parts that are not empty. How a library
    /// sends them does not count.
    [[nodiscard]] const Counts& messages() const { return messages_; }
    void reset();
    /// Disturbs the exchanges started from here on. All ranks call it at the same point.
    void disturb(Disturbance disturbance);
    /// Cuts this rank's link after this many more exchanges: every later start throws LinkLost.
    void lose_link_after(std::uint64_t exchanges) { exchanges_left_ = exchanges; }
    /// Flips a bit of each exchange of the kind that is started from here on, or all bits of a byte: the
    /// number, modulo nine times the bytes, says which. Only where the host can read it.
    void damage(Traffic traffic, std::uint64_t number) {
        damaged_ = {traffic, number};
        disturb(disturbance_);
    }
    /// Sets `came` once the link is lost or something has come damaged, however the rank reacts.
    void note_faults_in(bool& came) { fault_came_ = &came; }

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override;
    std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                  Piece piece, void* receive) override;
    [[nodiscard]] bool sends_pieces() const override { return inner_.sends_pieces(); }
    std::unique_ptr<Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                              void* receive, Stretches from) override;
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override;
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override;
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return inner_.host_can_read(traffic);
    }
    void progress() override { inner_.progress(); }
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

  private:
    class Disturbed;
    /// Starts the inner exchange, which receives at the given place.
    using Start = std::function<std::unique_ptr<Exchange>(void* receive)>;

    /// The buffer that receives data, and its parts. A gather's own part may be in it from the
    /// start.
    struct Place {
        std::byte* begin;
        std::size_t size;
        std::vector<Stretch> received;
    };

    [[nodiscard]] static Place whole_place(void* receive, std::size_t size);
    void count(Traffic traffic, std::size_t sent, std::uint64_t messages);
    void note_fault() const;
    std::unique_ptr<Exchange> start(Traffic traffic, const Place& place, Start inner_start);
    void one_more_call();

    Communicator& inner_;
    Disturbance disturbance_;
    bool disturbs_ = false;
    std::optional<std::uint64_t> exchanges_left_;
    std::optional<std::pair<Traffic, std::uint64_t>> damaged_;
    bool* fault_came_ = nullptr;
    Bytes bytes_{};
    Counts exchanges_{};
    Counts messages_{};
    std::vector<Disturbed*> under_way_; ///< in the order of their starts
};

} // namespace truestep::distributed

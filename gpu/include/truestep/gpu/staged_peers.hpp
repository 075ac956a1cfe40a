#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu {

/// Whether the machine's memory has it by default: only parameters; everything else is in the
/// host's.
inline bool stands_on_machine(distributed::Traffic traffic) {
    return traffic == distributed::Traffic::parameters;
}

/// Messages between machines through the host: out of the machine's memory, as the other peers send
/// it, and into the receiver's. Only work on the machine's stream may read what wait() returns. A
/// message comes as a whole. One source serves a device and its host form.
template <class Machine>
class StagedPeers final : public distributed::Peers {
  public:
    /// `ranks` has to outlive this and what it receives. `machine` is on the stream of the rank's
    /// backend and exchanges through the host. `on_machine`: the traffic in the machine's memory.
    StagedPeers(distributed::Peers& ranks, Machine machine,
                std::vector<distributed::Traffic> on_machine = {distributed::Traffic::parameters})
        : ranks_(ranks), machine_(std::move(machine)), on_machine_(std::move(on_machine)) {}

    [[nodiscard]] int rank() const override { return ranks_.rank(); }
    [[nodiscard]] int size() const override { return ranks_.size(); }
    [[nodiscard]] std::string name() const override { return ranks_.name(); }
    [[nodiscard]] bool host_can_read(distributed::Traffic traffic) const override {
        return !stands(traffic) && ranks_.host_can_read(traffic);
    }
    void must_go_on(distributed::Traffic traffic, int peer, std::uint64_t number) override {
        ranks_.must_go_on(traffic, peer, number);
    }
    void abandon() noexcept override { ranks_.abandon(); }
    void progress() override { ranks_.progress(); }
    void leave(const std::string& reason) noexcept override { ranks_.leave(reason); }

    void send(distributed::Traffic traffic, int peer, std::uint64_t number,
              std::shared_ptr<const void> message, std::size_t bytes) override {
        if (!stands(traffic)) {
            ranks_.send(traffic, peer, number, std::move(message), bytes);
            return;
        }
        // Parameters go to all neighbours, and one copy serves them all. Other messages go to one
        // neighbour, and may reuse the memory and number of an earlier message. So may parameters of a
        // round that a restore has undone, which then go to a neighbour that has had the last ones.
        const Sent now{message.get(), traffic, number, bytes};
        if (last_ == nullptr || traffic != distributed::Traffic::parameters || !(last_sent_ == now) ||
            std::ranges::find(served_, peer) != served_.end()) {
            last_ = copied_out(message.get(), bytes);
            last_sent_ = now;
            served_.clear();
        }
        served_.push_back(peer);
        ranks_.send(traffic, peer, number, {last_, last_->data()}, bytes);
    }

    [[nodiscard]] std::unique_ptr<distributed::IncomingMessage>
    receive(distributed::Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
        auto incoming = ranks_.receive(traffic, peer, number, bytes);
        if (!stands(traffic))
            return incoming;
        return std::make_unique<Copied>(*this, std::move(incoming), bytes);
    }

  private:
    using Bytes = typename Machine::template Vector<std::byte>;
    using Shared = std::shared_ptr<Bytes>;

    struct Sent {
        const void* from = nullptr;
        distributed::Traffic traffic{};
        std::uint64_t number = 0;
        std::size_t bytes = 0;
        friend bool operator==(const Sent&, const Sent&) = default;
    };

    [[nodiscard]] bool stands(distributed::Traffic traffic) const {
        return std::ranges::find(on_machine_, traffic) != on_machine_.end();
    }

    /// A message that is copied in when it is waited for.
    class Copied final : public distributed::IncomingMessage {
      public:
        Copied(StagedPeers& peers, std::unique_ptr<distributed::IncomingMessage> inner, std::size_t bytes)
            : peers_(peers), inner_(std::move(inner)), bytes_(bytes) {}
        Copied(const Copied&) = delete;
        Copied& operator=(const Copied&) = delete;
        /// The copy reads the sender's memory, which may be freed or rewritten once the message is
        /// let go.
        ~Copied() override {
            try {
                if (here_)
                    peers_.machine_.finish();
            } catch (...) { // NOLINT(bugprone-empty-catch): the device's error is reported elsewhere
            }
        }
        const std::byte* wait(std::size_t bytes) override {
            const std::byte* const there = inner_->wait(std::max(bytes, bytes_));
            if (!here_) {
                here_ = peers_.unused(peers_.arrived_, bytes_, false);
                peers_.machine_.upload(here_->data(), there, here_->size());
            }
            return here_->data();
        }

      private:
        StagedPeers& peers_;
        std::unique_ptr<distributed::IncomingMessage> inner_;
        std::size_t bytes_;
        Shared here_;
    };

    [[nodiscard]] Shared copied_out(const void* from, std::size_t bytes) {
        last_ = nullptr;
        Shared copy = unused(leaving_, bytes, true);
        machine_.fetch(copy->data(), static_cast<const std::byte*>(from), copy->size());
        machine_.finish(); // others read it without knowing of any stream
        return copy;
    }

    /// A vector of the pool that is not in use: of the right size if possible, else any. So the
    /// pool never holds more vectors than are in use at a time, whatever their sizes.
    [[nodiscard]] Shared unused(std::vector<Shared>& pool, std::size_t bytes, bool for_host) {
        const auto size = static_cast<Index>(bytes);
        Shared* other = nullptr;
        for (Shared& vector : pool)
            if (distributed::is_let_go(vector)) {
                if (vector->size() == size)
                    return vector;
                other = &vector;
            }
        if (other != nullptr) {
            machine_.resize(**other, size);
            return *other;
        }
        pool.push_back(std::make_shared<Bytes>());
        if (for_host)
            machine_.exchange(*pool.back());
        machine_.resize(*pool.back(), size);
        return pool.back();
    }

    distributed::Peers& ranks_;
    Machine machine_;
    std::vector<Shared> leaving_; ///< where the host, and ranks of this process, can read them
    std::vector<Shared> arrived_; ///< where the machine computes
    std::vector<distributed::Traffic> on_machine_;
    Shared last_;
    Sent last_sent_;
    std::vector<int> served_; ///< the peers that have had the last copy
};

} // namespace truestep::gpu

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

/// A communicator among some ranks of Peers, made of messages between pairs. It serves ranks that
/// send to neighbours and share sums with others, such as a pipeline with several copies. While a
/// rank waits here, its messages to neighbours make progress, and the other way round. No rank
/// waits for one outside of the communicator.
///
/// A part is copied once when an exchange starts: after wait() the caller's memory is free,
/// whatever the receiver does. Sums are added in rank order.
class PeerCommunicator final : public Communicator {
  public:
    /// `ranks` are the members among those of `peers`, including this one, in the same order on all
    /// of them: rank r here is ranks[r] there. While an exchange is under way, nothing else may
    /// travel between two members. `peers` has to outlive this object.
    PeerCommunicator(Peers& peers, std::vector<int> ranks);

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] std::string name() const override { return peers_.name(); }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override;
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override;
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override;
    void progress() override { peers_.progress(); }
    /// Leaves the peers: ranks that need this one end, including the neighbours.
    void abort(const std::string& reason) noexcept override { peers_.leave(reason); }

  private:
    /// The stretches that go to each rank, and those that receive from it.
    struct Places {
        std::vector<Stretch> to;
        std::vector<Stretch> from;
    };
    std::unique_ptr<Exchange> start(Traffic traffic, const void* send, std::size_t bytes, void* receive,
                                    const Places& places);

    Peers& peers_;
    std::vector<int> ranks_;
    int rank_;
    std::uint64_t exchanges_ = 0; ///< which number their messages
};

} // namespace truestep::distributed

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

/// A communicator among some ranks of Peers, made of messages between two: for ranks that send to
/// neighbours and share sums with others, as a pipeline of which there are several copies does. Whoever
/// waits here lets the messages to neighbours move on, and the other way round; nobody waits for a rank
/// that is not in it.
///
/// A part is copied once when an exchange starts: the caller's memory is free as soon as wait() says so,
/// whatever the receiver does. Sums are added in rank order.
class PeerCommunicator final : public Communicator {
  public:
    /// `ranks` are those of `peers` that belong to it, this one among them: the same ones in the same order
    /// on all of them, and rank r here is ranks[r] there. Between two of them nothing else may travel while
    /// an exchange is under way. `peers` has to outlive this.
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
    /// Leaves the peers: whoever needs this rank ends, the neighbours too.
    void abort(const std::string& reason) noexcept override { peers_.leave(reason); }

  private:
    /// What goes to each rank, and where what comes from it belongs.
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

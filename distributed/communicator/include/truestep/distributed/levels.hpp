// Exchanges of ranks in groups (section 32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// Ranks in groups (section 32). Within its group each rank handles the data of some of all ranks,
/// called owners: in a group of n of P ranks, rank j handles the owners o with floor(o*n/P) = j.
/// These owners are consecutive, so their data is one stretch of anything ordered by owner.
class Levels {
  public:
    /// A range of owners.
    struct Span {
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    struct Group {
        std::size_t begin = 0; ///< its first rank
        std::size_t size = 0;
    };

    Levels(std::span<const int> groups, int rank);

    [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
    [[nodiscard]] const Group& own_group() const { return groups_[own_]; }
    [[nodiscard]] std::size_t rank() const { return rank_; }
    [[nodiscard]] std::size_t ranks() const { return ranks_; }
    [[nodiscard]] std::size_t largest_group() const;
    /// The owners that the j-th rank of a group handles.
    [[nodiscard]] Span handled(const Group& group, std::size_t j) const;
    [[nodiscard]] Span handled() const { return handled(own_group(), rank_ - own_group().begin); }
    /// The rank of the group that handles an owner.
    [[nodiscard]] std::size_t handler(const Group& group, std::size_t owner) const {
        return group.begin + owner * group.size / ranks_;
    }

  private:
    std::vector<Group> groups_;
    std::size_t rank_;
    std::size_t ranks_ = 0;
    std::size_t own_ = 0;
};

struct LevelsRooms;

/// A communicator whose gathers take two hops: from an owner to its handler in each group, and from
/// there to the whole group. The inner communicator must have `host_can_read`, or its own
/// stretches.
class LevelsCommunicator final : public Communicator {
  public:
    /// `inner` has to outlive this object, and this object its exchanges.
    LevelsCommunicator(Communicator& inner, std::span<const int> groups);
    ~LevelsCommunicator() override;
    LevelsCommunicator(const LevelsCommunicator&) = delete;
    LevelsCommunicator& operator=(const LevelsCommunicator&) = delete;

    [[nodiscard]] const Levels& levels() const { return levels_; }

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }

    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override;
    [[nodiscard]] std::uint64_t sent_by_gather(Sizes sizes) const override;

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return inner_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
    }
    std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                  Piece piece, void* receive) override {
        return inner_.start_all_to_owners(traffic, send, sizes, piece, receive);
    }
    [[nodiscard]] bool sends_pieces() const override { return inner_.sends_pieces(); }
    std::unique_ptr<Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                              void* receive, Stretches from) override {
        return inner_.start_stretches(traffic, send, to, receive, from);
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        return inner_.start_reduce_scatter(traffic, send, receive, sizes);
    }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return inner_.host_can_read(traffic);
    }
    void progress() override { inner_.progress(); }
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

  private:
    Communicator& inner_;
    Levels levels_;
    std::unique_ptr<LevelsRooms> rooms_;
};

} // namespace truestep::distributed

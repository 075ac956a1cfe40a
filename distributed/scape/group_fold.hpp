#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <truestep/distributed/levels.hpp>
#include <truestep/distributed/scape/backend.hpp>

namespace truestep::distributed::scape {

/// The mean of section 32: what the ranks of a group send is added by the one of them that handles it, and
/// the groups' sums, in fp32, by its owner. A sum stands where the handler's own values stood.
///
/// `selected` is the number of values that each owner has; of all of them `payload` and `sums` are packed.
class GroupFold {
  public:
    using Selected = std::span<const Index>;

    GroupFold(const Levels& levels, Communicator& communicator, Backend& backend, std::size_t value_bytes)
        : levels_(levels), communicator_(communicator), backend_(backend), can_(backend.capabilities()),
          value_bytes_(value_bytes) {}

    /// Of a step: to moment(), where this rank is the owner. So many values come at once, of all ranks and
    /// of all groups, unless `largest_piece` says how many of each.
    void fold(const Scalars& scalars, Selected selected, Index at_once, Index largest_piece);

    /// Of a bucket, which goes in one piece.
    [[nodiscard]] std::unique_ptr<Exchange> start(const void* payload, Selected selected);
    /// When that has come: in place of the bucket's values `sums`.
    void finish(std::size_t bucket, float* sums, const Scalars& scalars, Selected selected);

    /// By this rank.
    [[nodiscard]] std::uint64_t bytes_sent(Selected selected);

  private:
    /// Where each owner's values stand among all that are packed.
    class Places {
      public:
        void put(Selected selected) {
            ends_.assign(selected.size() + 1, 0);
            std::partial_sum(selected.begin(), selected.end(), ends_.begin() + 1);
        }
        [[nodiscard]] std::size_t owners() const { return ends_.size() - 1; }
        [[nodiscard]] Index begin(std::size_t owner) const { return ends_[owner]; }
        [[nodiscard]] Index count(std::size_t owner) const { return ends_[owner + 1] - ends_[owner]; }
        [[nodiscard]] Index count(Levels::Span of) const { return ends_[of.end] - ends_[of.begin]; }
        [[nodiscard]] Index all() const { return ends_.back(); }
        [[nodiscard]] Index largest() const {
            Index largest = 0;
            for (std::size_t owner = 0; owner < owners(); ++owner)
                largest = std::max(largest, count(owner));
            return largest;
        }

      private:
        std::vector<Index> ends_; ///< of the owner before
    };

    /// Of each part, in values.
    struct Piece {
        static constexpr Index all_there_is = Index{1} << 60;

        Index begin = 0;
        Index count = all_there_is;
        float* sums = nullptr; ///< where groups' are received
        [[nodiscard]] Index of(Index part) const;
        [[nodiscard]] Index room(Index part) const;
    };

    /// Until they are asked for again.
    [[nodiscard]] const Places& places_of(Selected selected);

    [[nodiscard]] std::unique_ptr<Exchange> to_handlers(const void* payload, const Places& places,
                                                        const Piece& piece);
    [[nodiscard]] std::unique_ptr<Exchange> to_owners(const float* sums, const Places& places,
                                                      Piece& piece);
    [[nodiscard]] Index largest_block(const Places& places) const;
    [[nodiscard]] int ranks_of_group() const { return static_cast<int>(levels_.own_group().size); }
    [[nodiscard]] int groups() const { return static_cast<int>(levels_.groups().size()); }

    const Levels& levels_;
    Communicator& communicator_;
    Backend& backend_;
    Capabilities can_; ///< the backend's
    std::size_t value_bytes_;
    Places places_;
    std::vector<Stretch> to_; ///< of what is being started
    std::vector<Stretch> from_;
};

} // namespace truestep::distributed::scape

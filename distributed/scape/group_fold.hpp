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

/// The mean of section 32: in each group the handler adds the ranks' values, and the owner adds the
/// groups' sums, in fp32. A sum replaces the handler's own values.
///
/// `selected` is the number of values of each owner; `payload` and `sums` are packed over all of
/// them.
class GroupFold {
  public:
    using Selected = std::span<const Index>;

    GroupFold(const Levels& levels, Communicator& communicator, Backend& backend, std::size_t value_bytes)
        : levels_(levels), communicator_(communicator), backend_(backend), can_(backend.capabilities()),
          value_bytes_(value_bytes) {}

    /// Folds a step into moment(), where this rank is the owner. `at_once` values of all ranks and
    /// groups come at once, unless `largest_piece` gives the number from each.
    void fold(const Scalars& scalars, Selected selected, Index at_once, Index largest_piece);

    /// Starts a bucket, which goes in one piece.
    [[nodiscard]] std::unique_ptr<Exchange> start(const void* payload, Selected selected);
    /// Finishes it after its arrival: `sums` replace the bucket's values.
    void finish(std::size_t bucket, float* sums, const Scalars& scalars, Selected selected);

    /// The bytes that this rank sends.
    [[nodiscard]] std::uint64_t bytes_sent(Selected selected);

  private:
    /// The place of each owner's values among all packed ones.
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
        std::vector<Index> ends_; ///< where the owner before ends
    };

    /// The range of values of each part.
    struct Piece {
        static constexpr Index all_there_is = Index{1} << 60;

        Index begin = 0;
        Index count = all_there_is;
        float* sums = nullptr; ///< receives the groups' sums
        [[nodiscard]] Index of(Index part) const;
        [[nodiscard]] Index room(Index part) const;
    };

    /// Valid until the next call.
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
    std::vector<Stretch> to_; ///< for the exchange that is being started
    std::vector<Stretch> from_;
};

} // namespace truestep::distributed::scape

#include <truestep/distributed/levels.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "stretches.hpp"

namespace truestep::distributed {

Levels::Levels(std::span<const int> groups, int rank) : rank_(static_cast<std::size_t>(rank)) {
    for (const int size : groups) {
        if (rank_ >= ranks_)
            own_ = groups_.size();
        groups_.push_back({ranks_, static_cast<std::size_t>(size)});
        ranks_ += static_cast<std::size_t>(size);
    }
}

std::size_t Levels::largest_group() const {
    return std::ranges::max_element(groups_, {}, &Group::size)->size;
}

Levels::Span Levels::handled(const Group& group, std::size_t j) const {
    // The first o with o*n >= j*P.
    const auto first = [&](std::size_t of) { return (of * ranks_ + group.size - 1) / group.size; };
    return {first(j), first(j + 1)};
}

/// The lists of a communicator's gathers.
struct LevelsRooms {
    struct Hop {
        std::vector<Stretch> to;
        std::vector<Stretch> from;
    };
    Hop& of_hop(std::size_t ranks) {
        hop.to.assign(ranks, {});
        hop.from.assign(ranks, {});
        return hop;
    }

    SpareStretches spare;
    Hop hop; ///< for the gather that is being started
};

namespace {

/// The one stretch that holds the parts of these owners.
Stretch joined(const std::vector<Stretch>& parts, Levels::Span owners) {
    Stretch stretch{owners.begin < parts.size() ? parts[owners.begin].begin : 0, 0};
    for (std::size_t owner = owners.begin; owner < owners.end; ++owner)
        stretch.size += parts[owner].size;
    return stretch;
}

/// The two hops of a gather. A rank's own part is in its place.
class Relay final : public Exchange {
  public:
    Relay(Communicator& communicator, const Levels& levels, LevelsRooms& rooms, Traffic traffic,
          void* receive, Communicator::Sizes sizes)
        : communicator_(communicator), levels_(levels), rooms_(rooms), traffic_(traffic), receive_(receive),
          parts_(rooms.spare.take(sizes.size())) {
        put_stretches(parts_, sizes);
        const std::size_t me = levels_.rank();
        auto& [to, from] = rooms_.of_hop(parts_.size());
        for (const Levels::Group& group : levels_.groups())
            to[levels_.handler(group, me)] = parts_[me];
        const auto [first, last] = levels_.handled();
        for (std::size_t owner = first; owner < last; ++owner)
            from[owner] = parts_[owner];
        to[me] = from[me] = {};
        hop_ = communicator_.start_stretches(traffic_, receive_, to, receive_, from);
    }

    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    ~Relay() override { rooms_.spare.give_back(std::move(parts_)); }

    void relay() override {
        if (relayed_)
            return;
        hop_->wait();
        relayed_ = true;
        const Levels::Group& group = levels_.own_group();
        auto& [to, from] = rooms_.of_hop(parts_.size());
        for (std::size_t j = 0; j < group.size; ++j) {
            to[group.begin + j] = joined(parts_, levels_.handled());
            from[group.begin + j] = joined(parts_, levels_.handled(group, j));
        }
        to[levels_.rank()] = from[levels_.rank()] = {};
        hop_ = communicator_.start_stretches(traffic_, receive_, to, receive_, from);
    }

    void wait() override {
        relay();
        hop_->wait();
    }

    void settle() override { hop_->wait(); }

  private:
    Communicator& communicator_;
    const Levels& levels_;
    LevelsRooms& rooms_;
    Traffic traffic_;
    void* receive_;
    std::vector<Stretch> parts_; ///< by owner
    bool relayed_ = false;
    std::unique_ptr<Exchange> hop_;
};

} // namespace

LevelsCommunicator::LevelsCommunicator(Communicator& inner, std::span<const int> groups)
    : inner_(inner), levels_(groups, inner.rank()), rooms_(std::make_unique<LevelsRooms>()) {}

LevelsCommunicator::~LevelsCommunicator() = default;

std::unique_ptr<Exchange> LevelsCommunicator::start_all_gather(Traffic traffic, const void* send,
                                                               void* receive, Sizes sizes) {
    const std::size_t size = sizes[levels_.rank()];
    const std::size_t begin =
        std::reduce(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(levels_.rank()));
    // On a device the own part is in its place already.
    if (std::byte* const own = static_cast<std::byte*>(receive) + begin; size > 0 && own != send)
        std::memcpy(own, send, size);
    return std::make_unique<Relay>(inner_, levels_, *rooms_, traffic, receive, sizes);
}

std::uint64_t LevelsCommunicator::sent_by_gather(Sizes sizes) const {
    const std::size_t me = levels_.rank();
    std::uint64_t sent = 0;
    for (const Levels::Group& group : levels_.groups())
        sent += levels_.handler(group, me) == me ? 0 : sizes[me];
    const auto [first, last] = levels_.handled();
    for (std::size_t owner = first; owner < last; ++owner)
        sent += sizes[owner] * (levels_.own_group().size - 1);
    return sent;
}

} // namespace truestep::distributed

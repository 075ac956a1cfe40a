#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

/// The pieces of parts that lie one after the other.
inline void put_stretches(std::vector<Stretch>& stretches, Communicator::Sizes sizes, Piece piece = {}) {
    stretches.clear();
    stretches.reserve(sizes.size());
    std::size_t begin = 0;
    for (const std::size_t size : sizes) {
        stretches.push_back({begin + piece.begin_in(size), piece.size_in(size)});
        begin += size;
    }
}

inline std::vector<Stretch> stretches_of(Communicator::Sizes sizes, Piece piece = {}) {
    std::vector<Stretch> stretches;
    put_stretches(stretches, sizes, piece);
    return stretches;
}

/// Lists of stretches that exchanges have returned, for the next ones.
class SpareStretches {
  public:
    /// An empty list, with room for `room` stretches.
    [[nodiscard]] std::vector<Stretch> take(std::size_t room) {
        std::vector<Stretch> taken;
        if (spare_.empty()) {
            spare_.reserve(++made_);
        } else {
            taken = std::move(spare_.back());
            spare_.pop_back();
        }
        taken.clear();
        taken.reserve(room);
        return taken;
    }
    void give_back(std::vector<Stretch>&& given) noexcept { spare_.push_back(std::move(given)); }

  private:
    std::vector<std::vector<Stretch>> spare_;
    std::size_t made_ = 0; ///< room is reserved for all of them, so that none is lost on its return
};

} // namespace truestep::distributed

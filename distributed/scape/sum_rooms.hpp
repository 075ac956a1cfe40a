#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "rounded_payload.hpp"

namespace scape::distributed {

/// Where a host receives what groups have added: one room is folded while the next is filled.
class SumRooms {
  public:
    [[nodiscard]] void* hand_out(Index count) {
        std::vector<float>& room = rooms_[handed_out_++ % rooms_.size()];
        make_room(room, count);
        return room.data();
    }
    /// Of those that have been handed out, the first that was not asked for yet.
    [[nodiscard]] const float* next() { return rooms_[folded_++ % rooms_.size()].data(); }
    void forget() { folded_ = handed_out_; }

  private:
    std::array<std::vector<float>, 2> rooms_;
    std::size_t handed_out_ = 0;
    std::size_t folded_ = 0;
};

} // namespace scape::distributed

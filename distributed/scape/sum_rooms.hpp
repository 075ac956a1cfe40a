#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "rounded_payload.hpp"

namespace scape::distributed {

/// Where a host receives what groups have added: one room is folded while the next is filled.
class SumRooms {
  public:
    [[nodiscard]] float* hand_out(Index count) {
        std::vector<float>& room = rooms_[turn_++ % rooms_.size()];
        make_room(room, count);
        return room.data();
    }

  private:
    std::array<std::vector<float>, 2> rooms_;
    std::size_t turn_ = 0;
};

} // namespace scape::distributed

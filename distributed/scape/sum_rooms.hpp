#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "reusable_buffer.hpp"

namespace truestep::distributed::scape {

/// The memory in which a host receives sums of groups: one room is folded while the next is filled.
class SumRooms {
  public:
    [[nodiscard]] float* hand_out(problem::Index count) {
        return rooms_[turn_++ % rooms_.size()].make(count);
    }
    void end_step() {
        turn_ = 0;
        for (auto& room : rooms_)
            room.end_step();
    }

  private:
    std::array<ReusableBuffer<std::vector<float>>, 2> rooms_;
    std::size_t turn_ = 0;
};

} // namespace truestep::distributed::scape

#pragma once

#include <array>
#include <cstddef>

#include <truestep/distributed/aligned.hpp>

#include "reusable_buffer.hpp"
#include "rounded_payload.hpp"

namespace truestep::distributed::scape {

/// The memory in which a host receives payloads, in fp32 or as they travel: one room is folded
/// while the next is filled.
class ReceivedRooms {
  public:
    static constexpr int rooms = 2;

    [[nodiscard]] void* hand_out(RoundedPayload& rounded, problem::Index count) {
        const std::size_t room = handed_out_++ % rooms;
        if (rounded.any())
            return rounded.received(room, count);
        return values_[room].make(count);
    }
    /// The rooms in the order in which they have been handed out.
    [[nodiscard]] std::size_t to_fold() { return folded_++ % rooms; }
    [[nodiscard]] const float* values(std::size_t room) const { return values_[room].data(); }
    /// Drops what has not been folded, so that each step has its rooms in the same order.
    void forget() { handed_out_ = folded_ = 0; }
    void end_step() {
        forget();
        for (auto& room : values_)
            room.end_step();
    }

  private:
    std::array<ReusableBuffer<AlignedFloats>, rooms> values_;
    std::size_t handed_out_ = 0;
    std::size_t folded_ = 0;
};

} // namespace truestep::distributed::scape

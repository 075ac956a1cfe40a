#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// Z or dZ in the buffer from which it is sent: `count` values of a message with room for `bytes`.
/// In fp32 they are made in the message itself; otherwise beside it, and rounded on the way out.
class OutgoingPayload {
  public:
    OutgoingPayload(Payload payload, std::size_t count, std::size_t bytes);

    [[nodiscard]] float* values() { return wide_.empty() ? message_->data() : wide_.data(); }
    /// Packs the finished values into the message. False if one is not finite, or cannot travel.
    [[nodiscard]] bool pack();
    [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(message_->data()); }
    /// The message to be sent.
    [[nodiscard]] std::shared_ptr<const void> message() const { return {message_, message_->data()}; }

  private:
    std::size_t count_;
    std::shared_ptr<Floats> message_;
    Floats wide_; ///< empty in fp32
};

/// The values of a received message: in place, or in `room` if they travelled in less than fp32.
[[nodiscard]] const float* unpacked(Payload payload, const std::byte* message, std::size_t count,
                                    Floats& room);

} // namespace truestep::distributed::mapl

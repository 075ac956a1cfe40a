#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// Z or dZ where it is made, which is where it is sent from: `count` values of a message that has room for
/// `bytes`. In fp32 it is made in the message itself; else beside it, and rounded on the way out.
class Outgoing {
  public:
    Outgoing(Payload payload, std::size_t count, std::size_t bytes);

    [[nodiscard]] float* values() { return wide_.empty() ? message_->data() : wide_.data(); }
    /// Into the message, once the values are there. False if one is not finite, or is nothing that travels.
    [[nodiscard]] bool pack();
    [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(message_->data()); }
    /// To be sent.
    [[nodiscard]] std::shared_ptr<const void> message() const { return {message_, message_->data()}; }

  private:
    std::size_t count_;
    std::shared_ptr<Floats> message_;
    Floats wide_; ///< nothing in fp32
};

/// The values of a message that has come: in it, or in `room` where they travelled in less than fp32.
[[nodiscard]] const float* unpacked(Payload payload, const std::byte* message, std::size_t count,
                                    Floats& room);

} // namespace truestep::distributed::mapl

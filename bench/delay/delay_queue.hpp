#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace truestep::bench {

/// A queue of delayed frames. All wait equally long, so none overtakes another. Their bytes lie one
/// after the other in a buffer of fixed size, into which they are read.
class DelayQueue {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Frame {
        std::size_t begin; ///< in the buffer
        std::size_t size;
        std::size_t link;
        Time due;
    };

    /// Holds `bytes` bytes; `largest` is the greatest size of a frame. Throws truestep::Error if
    /// not even one fits.
    DelayQueue(std::size_t bytes, std::size_t largest);

    /// The `largest` bytes into which the next frame may be read; empty if there is no room.
    [[nodiscard]] std::span<std::byte> room();
    /// Makes the first `size` bytes of that room a frame, due no sooner than the last one.
    void push(std::size_t size, std::size_t link, Time due);

    [[nodiscard]] bool empty() const { return frames_.empty(); }
    [[nodiscard]] const Frame& front() const { return frames_.front(); }
    [[nodiscard]] std::span<const std::byte> bytes(const Frame& frame) const {
        return std::span(buffer_).subspan(frame.begin, frame.size);
    }
    void pop() { frames_.pop_front(); }

  private:
    std::vector<std::byte> buffer_;
    std::size_t largest_;
    std::size_t end_ = 0; ///< behind the last frame
    std::deque<Frame> frames_;
};

} // namespace truestep::bench

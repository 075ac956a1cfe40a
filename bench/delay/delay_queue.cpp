#include "delay/delay_queue.hpp"

#include <truestep/problem/error.hpp>

namespace truestep::bench {

DelayQueue::DelayQueue(std::size_t bytes, std::size_t largest) : buffer_(bytes), largest_(largest) {
    if (bytes < largest)
        throw Error("a queue of " + std::to_string(bytes) + " bytes holds no frame of " +
                    std::to_string(largest) + "; give a larger one");
}

std::span<std::byte> DelayQueue::room() {
    if (frames_.empty())
        end_ = 0;
    const std::size_t first = frames_.empty() ? buffer_.size() : frames_.front().begin;
    // The next frame goes behind the last one. A frame never wraps, so it may go to the front
    // instead.
    if (frames_.empty() || end_ > first) {
        if (buffer_.size() - end_ >= largest_)
            return std::span(buffer_).subspan(end_, largest_);
        if (first < largest_)
            return {};
        end_ = 0;
        return std::span(buffer_).first(largest_);
    }
    if (first - end_ < largest_)
        return {};
    return std::span(buffer_).subspan(end_, largest_);
}

void DelayQueue::push(std::size_t size, std::size_t link, Time due) {
    frames_.push_back({end_, size, link, due});
    end_ += size;
}

} // namespace truestep::bench

#pragma once

// A device's stream in the host's form. Work waits in a queue until a thread has to wait for it, or
// runs a little earlier at random. Code that forgets to order two streams therefore reads data too
// early or too late.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include <truestep/gpu/block.hpp>

namespace truestep::gpu {

namespace host_form {

constexpr int nonsense = 0xa5; ///< in what has not been written

/// The next value of a linear congruential generator; use its upper bits.
inline std::uint64_t next_random(std::uint64_t& state) {
    state = state * 0x5851'f42d'4c95'7f2dU + 0x1405'7b7e'f767'814fU;
    return state >> 33U;
}

/// A queue of work. The thread that waits for work does it, in the queue's order: the queue's own
/// thread or a peer's.
class Queue {
  public:
    using Work = std::function<void()>;

    /// Seed 0: all work is done at once, in ascending order, which hides missing synchronization.
    Queue(int threads, std::uint64_t seed)
        : orders(threads, seed), state(seed), at_once_(seed == 0), eagerness_(seed) {}

    void put(Work work) {
        std::uint64_t end = 0;
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(work));
            end = done_ + waiting_.size() + (busy_ ? 1 : 0);
        }
        constexpr std::uint64_t one_in = 16;
        if (at_once_ || next_random(eagerness_) % one_in == 0)
            finish(end);
    }

    [[nodiscard]] std::uint64_t put_so_far() {
        const std::lock_guard lock(mutex_);
        return done_ + waiting_.size() + (busy_ ? 1 : 0);
    }

    /// Does all work up to `end`. Work that waits for another queue does that queue's work
    /// meanwhile. Work can wait only for what was put before, so two queues cannot wait for each
    /// other.
    void finish(std::uint64_t end) {
        std::unique_lock lock(mutex_);
        while (done_ < end) {
            if (busy_) {
                changed_.wait(lock); // for one piece of work, not for all that its thread does next
                continue;
            }
            busy_ = true;
            const Work work = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            work();
            lock.lock();
            busy_ = false;
            ++done_;
            changed_.notify_all();
        }
    }
    void finish() { finish(put_so_far()); }

    // Used by the work, one thread at a time.
    ThreadOrders orders;
    std::uint64_t state;

  private:
    bool at_once_;
    std::uint64_t eagerness_; ///< of the thread that puts
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;
    bool busy_ = false;      ///< with what was at the front
    std::uint64_t done_ = 0; ///< pieces of work
};

} // namespace host_form

/// A handle: copies are the same stream.
class HostStream {
  public:
    /// A place in a stream, behind all work that was put before it.
    struct Event {
        std::shared_ptr<host_form::Queue> queue;
        std::uint64_t end = 0;
    };

    /// Throws truestep::Error for a number of threads that a block cannot have.
    HostStream(int threads, std::uint64_t seed)
        : queue_(std::make_shared<host_form::Queue>(threads, seed)), threads_(threads), seed_(seed) {}

    /// One that differs from other ranks' and other turns': in the size of its blocks, up to the largest,
    /// in their order, and in which work is early and which late.
    [[nodiscard]] static HostStream in_turn(int rank, int turn) {
        constexpr std::array sizes{256, 64, 32, most_threads};
        return {sizes[static_cast<std::size_t>(rank + turn) % sizes.size()],
                1 + 16 * static_cast<std::uint64_t>(rank) + static_cast<std::uint64_t>(turn)};
    }

    /// Another stream of the same device.
    [[nodiscard]] HostStream beside() const { return {threads_, seed_ == 0 ? 0 : seed_ + 1}; }

    [[nodiscard]] Event record() const { return {queue_, queue_->put_so_far()}; }
    /// Work that is put from here on comes after the event.
    void wait(const Event& event) {
        queue_->put([event] { event.queue->finish(event.end); });
    }
    /// Returns when all work is done.
    void synchronize() { queue_->finish(); }

    void copy(void* to, const void* from, std::size_t bytes) {
        if (bytes > 0)
            queue_->put([=] { std::memmove(to, from, bytes); });
    }
    void fill(void* begin, int byte, std::size_t bytes) {
        if (bytes > 0)
            queue_->put([=] { std::memset(begin, byte, bytes); });
    }
    /// Puts a library's work on the stream.
    void call(host_form::Queue::Work work) { queue_->put(std::move(work)); }
    /// Memory that may go once all work put before is done.
    void let_go(std::shared_ptr<void> memory) {
        queue_->put([memory = std::move(memory)] {});
    }

    /// Runs blocks one after the other, in another order at every launch.
    template <class Algorithm, class Block = HostBlock>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        queue_->put([queue = queue_.get(), blocks, arguments] {
            std::vector<Index> order(static_cast<std::size_t>(blocks));
            std::iota(order.begin(), order.end(), Index{0});
            for (std::size_t left = order.size(); left > 1; --left)
                std::swap(order[left - 1],
                          order[static_cast<std::size_t>(host_form::next_random(queue->state) % left)]);
            const auto shared = std::make_unique<typename Algorithm::Shared>();
            for (const Index index : order) {
                if constexpr (!std::is_empty_v<typename Algorithm::Shared>)
                    std::memset(static_cast<void*>(shared.get()), host_form::nonsense, sizeof *shared);
                Block block(index, queue->orders);
                Algorithm::run(block, *shared, arguments);
            }
        });
    }

  private:
    std::shared_ptr<host_form::Queue> queue_;
    int threads_;
    std::uint64_t seed_;
};

} // namespace truestep::gpu

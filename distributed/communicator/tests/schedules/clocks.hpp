#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace truestep::distributed::model {

constexpr std::size_t most_threads = 4; ///< the caller and three

[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

/// A vector clock: how much of each thread's past is known.
class Clock {
  public:
    [[nodiscard]] std::uint32_t operator[](std::size_t thread) const { return ticks_[thread]; }
    void tick(std::size_t thread) { ++ticks_[thread]; }
    void set(std::size_t thread, std::uint32_t tick) { ticks_[thread] = tick; }
    void join(const Clock& other) {
        for (std::size_t i = 0; i < most_threads; ++i)
            ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
    [[nodiscard]] bool knows(const Clock& other) const {
        for (std::size_t i = 0; i < most_threads; ++i)
            if (ticks_[i] < other.ticks_[i])
                return false;
        return true;
    }

  private:
    std::array<std::uint32_t, most_threads> ticks_{};
};

/// The reads and writes of a place in memory that no atomic guards. Two accesses, of which one
/// writes, must be ordered by synchronization, in whichever order they happen to come.
struct Place {
    Clock reads;
    Clock writes;

    [[nodiscard]] bool read(std::size_t thread, const Clock& now) {
        reads.set(thread, now[thread]);
        return now.knows(writes);
    }
    [[nodiscard]] bool write(std::size_t thread, const Clock& now) {
        const bool ordered = now.knows(writes) && now.knows(reads);
        writes.set(thread, now[thread]);
        return ordered;
    }
};

} // namespace truestep::distributed::model

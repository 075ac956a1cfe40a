#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include <malloc.h>

#include <benchmark/benchmark.h>

#include <truestep/problem/statistics.hpp>

// What the programs over Google Benchmark share: clocks, the copy as a yardstick, and turns with a
// floor. Machines are shared and noisy, so rows report medians, and ratios within one process.

namespace truestep::bench {

inline double seconds_on(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Processor time of this thread; it stops while another program has the core.
inline double thread_seconds() {
    return seconds_on(CLOCK_THREAD_CPUTIME_ID);
}

/// Processor time of all threads together.
inline double process_seconds() {
    return seconds_on(CLOCK_PROCESS_CPUTIME_ID);
}

/// Wall time, for work that waits: disks, other threads, other ranks.
inline double wall_seconds() {
    return seconds_on(CLOCK_MONOTONIC);
}

using ClockFunction = double (*)();

template <class Action>
double seconds_of(const Action& action, ClockFunction now = thread_seconds) {
    const double begin = now();
    action();
    benchmark::ClobberMemory();
    return now() - begin;
}

using Samples = std::vector<double>;

/// The yardstick: bytes per second that a plain copy of 64 MiB by so many threads reads and writes, the
/// best of five, once a process.
template <int threads = 1>
double copy_bytes_per_second() {
    static const double best = [] {
        constexpr std::size_t bytes = std::size_t{64} << 20U;
        const std::vector<char> from(bytes, 1);
        std::vector<char> to(bytes, 2);
        const auto copy = [&](std::size_t part) {
            std::memcpy(to.data() + part * (bytes / threads), from.data() + part * (bytes / threads),
                        bytes / threads);
            benchmark::DoNotOptimize(to.data());
        };
        const auto by_all = [&] {
            std::vector<std::jthread> others;
            for (std::size_t part = 1; part < threads; ++part)
                others.emplace_back(copy, part);
            copy(0);
        };
        double least = 1e9;
        for (int repetition = 0; repetition < 5; ++repetition)
            least = std::min(least, seconds_of(by_all, threads == 1 ? thread_seconds : wall_seconds));
        return 2.0 * static_cast<double>(bytes) / least;
    }();
    return best;
}

/// Bytes that this process has allocated and not freed.
inline double heap_bytes() {
    const auto info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

/// Reports what ci/track compares: an upper limit of the quickest tenth of iterations. Disturbances
/// only ever add time.
inline void report_time(benchmark::State& state, const Samples& seconds) {
    state.counters["tenth_seconds"] = quantile(seconds, 0.1);
}

/// Reports the counters of every row. `bytes`: the least that have to be moved.
inline void report(benchmark::State& state, double bytes, const Samples& seconds) {
    report_time(state, seconds);
    state.counters["bytes/s"] = bytes / median(seconds);
    state.counters["share_of_copy"] = bytes / median(seconds) / copy_bytes_per_second();
}

/// Seconds of an action and of its floor, which cannot be slower; both took turns.
struct TimeOverFloor {
    Samples floor;
    Samples action;

    /// The action's time as a multiple of the floor's.
    [[nodiscard]] double ratio() const { return median(action) / median(floor); }
};

inline void report_floor(benchmark::State& state, const TimeOverFloor& seconds) {
    report_time(state, seconds.action);
    state.counters["share_of_floor"] = 1.0 / seconds.ratio();
}
/// The same, if the floor moves `bytes` bytes, which count for the row as well.
inline void report_floor(benchmark::State& state, const TimeOverFloor& seconds, double bytes) {
    report_floor(state, seconds);
    report(state, bytes, seconds.action);
    state.counters["floor_bytes/s"] = bytes / median(seconds.floor);
}

/// Runs floor and action in turns, in a row with manual time.
template <class Floor, class Action>
TimeOverFloor take_turns(benchmark::State& state, const Floor& floor, const Action& action,
                         ClockFunction now = thread_seconds) {
    TimeOverFloor seconds;
    for (auto _ : state) {
        seconds.floor.push_back(seconds_of(floor, now));
        seconds.action.push_back(seconds_of(action, now));
        state.SetIterationTime(seconds.action.back());
    }
    return seconds;
}

/// The same, and reports it; returns the ratio.
template <class Floor, class Action>
double take_turns(benchmark::State& state, double bytes, const Floor& floor, const Action& action,
                  ClockFunction now = thread_seconds) {
    const TimeOverFloor seconds = take_turns(state, floor, action, now);
    report_floor(state, seconds, bytes);
    return seconds.ratio();
}

} // namespace truestep::bench

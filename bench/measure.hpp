#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <vector>

#include <malloc.h>

#include <benchmark/benchmark.h>

// What the programs over Google Benchmark share: clocks, the copy that every row is held against, turns
// with a floor. Machines are shared and noisy, so rows report medians, and ratios within one process.

namespace scape::bench {

/// Of the thread: while another program has the core it stands still.
inline double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// On the wall, for what waits: disks, other threads, other ranks.
inline double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using ClockFunction = double (*)();

template <class Action>
double seconds_of(const Action& action, ClockFunction now = thread_seconds) {
    const double begin = now();
    action();
    benchmark::ClobberMemory();
    return now() - begin;
}

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// The yardstick: bytes per second that a plain copy of 64 MiB reads and writes, the best of five, once a
/// process.
inline double copy_bytes_per_second() {
    static const double best = [] {
        constexpr std::size_t bytes = std::size_t{64} << 20U;
        const std::vector<char> from(bytes, 1);
        std::vector<char> to(bytes, 2);
        double least = 1e9;
        for (int repetition = 0; repetition < 5; ++repetition)
            least = std::min(least, seconds_of([&] {
                                 std::memcpy(to.data(), from.data(), bytes);
                                 benchmark::DoNotOptimize(to.data());
                             }));
        return 2.0 * static_cast<double>(bytes) / least;
    }();
    return best;
}

/// What this process has allocated and not freed.
inline double heap_bytes() {
    const auto info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

/// The counters of every row. `bytes` are the least that have to be moved.
inline void report(benchmark::State& state, double bytes, double seconds) {
    state.counters["median_seconds"] = seconds;
    state.counters["bytes/s"] = bytes / seconds;
    state.counters["share_of_copy"] = bytes / seconds / copy_bytes_per_second();
}

/// Medians of a floor and of what cannot be faster.
struct Beside {
    double floor = 0.0;
    double action = 0.0;
};

inline void report_floor(benchmark::State& state, const Beside& seconds) {
    state.counters["median_seconds"] = seconds.action;
    state.counters["share_of_floor"] = seconds.floor / seconds.action;
}
/// Where the floor moves so many bytes, with which the row is credited too.
inline void report_floor(benchmark::State& state, const Beside& seconds, double bytes) {
    report_floor(state, seconds);
    report(state, bytes, seconds.action);
    state.counters["floor_bytes/s"] = bytes / seconds.floor;
}

/// Runs floor and action in turns, in a row with manual time.
template <class Floor, class Action>
Beside take_turns(benchmark::State& state, const Floor& floor, const Action& action,
                  ClockFunction now = thread_seconds) {
    std::vector<double> floor_seconds;
    std::vector<double> seconds;
    for (auto _ : state) {
        floor_seconds.push_back(seconds_of(floor, now));
        seconds.push_back(seconds_of(action, now));
        state.SetIterationTime(seconds.back());
    }
    return {median(floor_seconds), median(seconds)};
}

/// The same, reported; returns how many times as long as the floor the action takes.
template <class Floor, class Action>
double take_turns(benchmark::State& state, double bytes, const Floor& floor, const Action& action,
                  ClockFunction now = thread_seconds) {
    const Beside seconds = take_turns(state, floor, action, now);
    report_floor(state, seconds, bytes);
    return seconds.action / seconds.floor;
}

} // namespace scape::bench

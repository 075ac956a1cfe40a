// What this process and its children are doing, for signal handlers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <sys/types.h>

namespace truestep::gate {

constexpr int most_processes = 16;

inline std::int64_t now_in_milliseconds() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

/// Plain buffers in shared memory: signal handlers read them, and so does the parent of the process that
/// writes them.
struct RunningCase {
    std::atomic<std::int64_t> since;
    std::atomic<pid_t> process; ///< this process's child at work on it; 0: none
    std::array<char, 4096> command;
    std::array<char, 2048> line;
    std::array<char, 64> where; ///< the rank that crashed, and its phase
};

/// The first is this process's, the others are those of its children. A child runs its own children one
/// after another, and they write into its entry.
std::array<RunningCase, most_processes + 1>& all_running();
/// This process's entry.
RunningCase*& mine();
void begin(RunningCase& running);

/// Undoes tell_of_crashes() in a child, whose parent reports: a crash leaves there only where it was.
void leave_crashes_to_the_parent();

} // namespace truestep::gate

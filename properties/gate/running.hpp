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

/// Read by a signal handler, and by the parent of whoever writes it: plain buffers in shared memory.
struct Running {
    std::atomic<std::int64_t> since;
    std::atomic<pid_t> process; ///< at work on it, started by this one; 0: none
    std::array<char, 4096> command;
    std::array<char, 2048> line;
};

/// Of this process, then of those that it starts. A process that was started itself begins none but one
/// after another, which write into its own.
std::array<Running, most_processes + 1>& all_running();
/// This process's own of these.
Running*& mine();
void begin(Running& running);

/// What tell_of_crashes() has begun: a process that was started has nothing to tell.
void forget_signals();

} // namespace truestep::gate

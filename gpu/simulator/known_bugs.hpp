#pragma once

// Known bugs that the variable TRUESTEP_SIMULATED_BUG makes, to see whether tests notice them.

#include <string>
#include <string_view>

namespace truestep::simulator {

/// The PTX with the change that the variable requests: "KERNEL|NUMBER|REGEX|REPLACEMENT". It
/// changes kernels whose mangled names contain KERNEL. NUMBER says which of the matching lines
/// changes; 0 means all.
[[nodiscard]] std::string with_known_bug(std::string_view ptx);
/// Whether a function of the runtime shall do nothing: "call|cudaStreamWaitEvent".
[[nodiscard]] bool unsupported(const char* call);
/// The number of threads with which a block is launched: `asked`, or NUMBER in "threads|NUMBER".
[[nodiscard]] unsigned threads_of(unsigned asked);

} // namespace truestep::simulator

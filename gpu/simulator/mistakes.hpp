#pragma once

// Mistakes made on purpose, to see that one's tests notice: by the variable TRUESTEP_SIMULATED_MISTAKE.

#include <string>
#include <string_view>

namespace truestep::simulator {

/// The PTX with what the variable asks for: "KERNEL|NUMBER|REGEX|REPLACEMENT", by lines of the kernels
/// whose mangled names hold KERNEL; NUMBER is which of the lines that the expression is found in, 0 all.
[[nodiscard]] std::string with_mistake(std::string_view ptx);
/// Whether a function of the runtime is to do nothing: "call|cudaStreamWaitEvent".
[[nodiscard]] bool left_out(const char* call);
/// "threads|NUMBER": how many a block is launched with, whoever asked for others.
[[nodiscard]] unsigned threads_of(unsigned asked);

} // namespace truestep::simulator

// The options of bench_gpu: sizes, densities, the device, samples and output files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::gpu::bench {

using problem::Index;

struct Options {
    std::vector<Index> sizes{Index{1} << 20, Index{1} << 24, Index{1} << 27, Index{1} << 30};
    std::vector<double> densities{0.1, 0.01};
    int workers = 8;
    int device = 0;
    int samples = 30;
    Index check_size = 1'000'003;
    bool require_device = false;
    std::string json; ///< also written there
    std::string benchmark_out;
    std::string torch; ///< what torch_adamw.py has written, to stand beside
};

/// Parses "1048576" or "2^20". Throws truestep::Error.
[[nodiscard]] Index parse_size(const std::string& text);

/// The options, or the exit status after printing help or an error. Throws truestep::Error.
struct ParsedOptions {
    Options options;
    std::optional<int> status;
};
[[nodiscard]] ParsedOptions parse(int argc, const char* const* argv);

} // namespace truestep::gpu::bench

// Parses the command line of bench_gpu.
#include "gpu/options.hpp"

#include <CLI/CLI.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "benchmark_out.hpp"

namespace truestep::gpu::bench {

Index parse_size(const std::string& text) {
    const auto whole = [&](std::string_view digits) {
        const auto value = parse_number<Index>(digits);
        if (!value)
            throw Error("size '" + text + "'; it must be a number, such as 1048576 or 2^20");
        return *value;
    };
    constexpr Index greatest_exponent = 31;
    Index size = 0;
    if (text.starts_with("2^")) {
        const Index exponent = whole(std::string_view(text).substr(2));
        size = exponent >= 0 && exponent <= greatest_exponent ? Index{1} << exponent : 0;
    } else {
        size = whole(text);
    }
    if (size < 1 || size > Index{1} << greatest_exponent)
        throw Error("size '" + text + "'; it must be 1 to 2^" + std::to_string(greatest_exponent));
    return size;
}

ParsedOptions parse(int argc, const char* const* argv) {
    ParsedOptions parsed;
    Options& options = parsed.options;
    std::vector<std::string> sizes;
    CLI::App app(
        "Times each kernel of gpu/ and the whole local step of a rank with CUDA events, beside a copy, "
        "one read, and dense AdamS and AdamW in one pass. bench/README.md describes each column "
        "means. Without a device it says SKIPPED and why, and ends with 0.",
        "bench_gpu");
    app.add_option("--sizes", sizes, "parameters, as 2^20 or numbers (2^20,2^24,2^27,2^30)")
        ->delimiter(',');
    app.add_option("--densities", options.densities, "shares that are synchronized (0.1,0.01)")
        ->delimiter(',')
        ->check(CLI::Range(1e-6, 1.0));
    app.add_option("-P,--workers", options.workers, "ranks, of which one is timed: it selects in a P-th")
        ->check(CLI::Range(1, 256));
    app.add_option("--device", options.device, "which")->check(CLI::NonNegativeNumber);
    app.add_option("--samples", options.samples, "at least so many of each")->check(CLI::Range(1, 100'000));
    app.add_option("--check-size", options.check_size, "parameters of the comparison with the host")
        ->check(CLI::Range(Index{1}, Index{1} << 24));
    app.add_flag("--require-device", options.require_device, "end with 1 where there is none");
    app.add_option("--json", options.json, "also write the figures to this file");
    app.add_option(truestep::bench::benchmark_out_option, options.benchmark_out,
                   truestep::bench::benchmark_out_help);
    app.add_option("--torch", options.torch, "put the figures of this file of torch_adamw.py beside ours")
        ->check(CLI::ExistingFile);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        parsed.status = app.exit(error) == 0 ? 0 : 2;
        return parsed;
    }
    if (!sizes.empty())
        options.sizes.clear();
    for (const std::string& size : sizes)
        options.sizes.push_back(parse_size(size));
    return parsed;
}

} // namespace truestep::gpu::bench

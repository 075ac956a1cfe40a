// Runs bench_gpu: measures on the device or skips, prints the report, sets the exit status.
#include <cstdio>
#include <exception>
#include <fstream>

#include <truestep/gpu/availability.hpp>
#include <truestep/problem/error.hpp>

#include "gpu/figures.hpp"
#include "gpu/options.hpp"
#if defined(TRUESTEP_WITH_CUDA)
#include "gpu/measure.hpp"
#endif

namespace {

using namespace truestep::gpu::bench;

Report report_of([[maybe_unused]] const Options& options) {
    const truestep::gpu::Availability here = truestep::gpu::availability();
    if (here.devices == 0) {
        Report report;
        report.skipped = here.text;
        return report;
    }
#if defined(TRUESTEP_WITH_CUDA)
    return measure(options);
#else
    throw truestep::Error("a device, and built without CUDA"); // availability() knows of none then
#endif
}

int run(const Options& options) {
    Report report = report_of(options);
    if (!options.torch.empty())
        add_torch(report, nlohmann::json::parse(std::ifstream(options.torch)));
    std::fputs(text(report).c_str(), stdout);
    if (!options.json.empty() && !(std::ofstream(options.json) << json(report).dump(1) << '\n'))
        throw truestep::Error("cannot write " + options.json);
    if (!report.skipped.empty())
        return options.require_device ? 1 : 0;
    return report.wrong() ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const ParsedOptions parsed = parse(argc, argv);
        return parsed.status ? *parsed.status : run(parsed.options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_gpu: %s\n", error.what());
        return 2;
    }
}

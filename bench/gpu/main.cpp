#include <cstdio>
#include <exception>
#include <fstream>

#include <scape/gpu/availability.hpp>
#include <scape/problem/error.hpp>

#include "gpu/figures.hpp"
#include "gpu/options.hpp"
#if defined(SCAPE_WITH_CUDA)
#include "gpu/measure.hpp"
#endif

namespace {

using namespace scape::gpu::bench;

Report report_of([[maybe_unused]] const Options& options) {
    const scape::gpu::Availability here = scape::gpu::availability();
    if (here.devices == 0) {
        Report report;
        report.skipped = here.text;
        return report;
    }
#if defined(SCAPE_WITH_CUDA)
    return measure(options);
#else
    throw scape::Error("a device, and built without CUDA"); // availability() knows of none then
#endif
}

int run(const Options& options) {
    Report report = report_of(options);
    if (!options.torch.empty())
        add_torch(report, nlohmann::json::parse(std::ifstream(options.torch)));
    std::fputs(text(report).c_str(), stdout);
    if (!options.json.empty() && !(std::ofstream(options.json) << json(report).dump(1) << '\n'))
        throw scape::Error("cannot write " + options.json);
    if (!report.skipped.empty())
        return options.require_device ? 1 : 0;
    return report.wrong() ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const Parsed parsed = parse(argc, argv);
        return parsed.status ? *parsed.status : run(parsed.options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_gpu: %s\n", error.what());
        return 2;
    }
}

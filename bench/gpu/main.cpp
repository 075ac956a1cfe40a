// Runs bench_gpu: measures on the device or skips, prints the report, sets the exit status.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>

#include <truestep/gpu/availability.hpp>
#include <truestep/problem/error.hpp>

#include "benchmark_out.hpp"
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

std::vector<truestep::bench::BenchmarkRow> benchmark_rows(const Report& report) {
    std::vector<truestep::bench::BenchmarkRow> rows;
    for (const Row& row : report.rows) {
        char tail[64];
        std::snprintf(tail, sizeof tail, "/d:%lld/density:%g", static_cast<long long>(row.d), row.density);
        std::string name = "gpu/" + row.name + tail;
        std::ranges::replace(name, ' ', '_');
        // The device's clock; the host waits meanwhile.
        rows.push_back(
            {name, row.seconds, truestep::median(row.seconds), {{"share_of_copy", row.share_of_copy()}}});
    }
    return rows;
}

int run(const Options& options) {
    Report report = report_of(options);
    if (!options.torch.empty())
        add_torch(report, nlohmann::json::parse(std::ifstream(options.torch)));
    std::fputs(text(report).c_str(), stdout);
    if (!options.json.empty() && !(std::ofstream(options.json) << json(report).dump(1) << '\n'))
        throw truestep::Error("cannot write " + options.json);
    truestep::bench::write_benchmark_out(options.benchmark_out, benchmark_rows(report));
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

// Writes measured rows as Google Benchmark's JSON, with the machine, compiler and commit.
#include "benchmark_out.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include <benchmark/benchmark.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/statistics.hpp>
#include <truestep/report/environment.hpp>

namespace truestep::bench {

namespace {

/// The commit of the source tree while the program runs. A program does not know it: each commit would link
/// all of them anew.
std::string commit() {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> git(
        popen("git -C '" TRUESTEP_SOURCE "' describe --always --dirty --abbrev=12 2>/dev/null", "r"),
        pclose);
    std::array<char, 64> text{};
    if (!git || std::fgets(text.data(), text.size(), git.get()) == nullptr)
        return "unknown";
    const std::string line = text.data();
    return line.substr(0, line.find('\n'));
}

} // namespace

void add_benchmark_context() {
    benchmark::AddCustomContext("commit", commit());
    for (const auto& [key, value] : report::environment())
        benchmark::AddCustomContext(key, value);
}

void write_benchmark_out(const std::string& path, const std::vector<BenchmarkRow>& rows) {
    if (path.empty())
        return;
    using benchmark::BenchmarkReporter;
    add_benchmark_context();
    BenchmarkReporter::Context::executable_name = program_invocation_name;
    std::ofstream file(path);
    benchmark::JSONReporter reporter;
    reporter.SetOutputStream(&file);
    reporter.ReportContext(BenchmarkReporter::Context());
    std::vector<BenchmarkReporter::Run> runs;
    for (const BenchmarkRow& row : rows) {
        BenchmarkReporter::Run& run = runs.emplace_back();
        run.run_name.function_name = row.name;
        run.family_index = static_cast<std::int64_t>(runs.size()) - 1;
        run.per_family_instance_index = 0;
        run.repetition_index = 0;
        run.repetitions = 1;
        run.iterations = static_cast<benchmark::IterationCount>(row.seconds.size());
        run.time_unit = benchmark::kMillisecond;
        const auto iterations = static_cast<double>(row.seconds.size());
        run.real_accumulated_time = median(row.seconds) * iterations;
        run.cpu_accumulated_time = row.cpu_seconds * iterations;
        run.counters["tenth_seconds"] = quantile(row.seconds, 0.1);
        for (const auto& [name, value] : row.counters)
            if (std::isfinite(value)) // JSON has no other numbers
                run.counters[name] = value;
    }
    reporter.ReportRuns(runs);
    reporter.Finalize();
    if (!file.flush())
        throw Error("cannot write " + path);
}

} // namespace truestep::bench

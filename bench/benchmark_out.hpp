#pragma once

#include <map>
#include <string>
#include <vector>

// Every benchmark writes this for others to read: Google Benchmark's JSON, by its own reporter. Programs
// over that library write it themselves; the others hand over their rows. README.md has the names.

namespace truestep::bench {

struct BenchmarkRow {
    std::string name; ///< "peers/scape:0.01/d:1048576/P:2"; it must not change from version to version
    std::vector<double> seconds; ///< of each iteration
    double cpu_seconds = 0;      ///< of one iteration
    std::map<std::string, double> counters{};
};

/// Adds the commit, and what `truestep info` prints of compiler, processor and libraries, to the context of
/// the file.
void add_benchmark_context();

/// Writes the rows to the file; does nothing if the path is empty. Throws truestep::Error.
void write_benchmark_out(const std::string& path, const std::vector<BenchmarkRow>& rows);

/// The option's name and help, the same in each program.
constexpr const char* benchmark_out_option = "--benchmark_out";
constexpr const char* benchmark_out_help =
    "also write the rows as Google Benchmark's JSON to this file (bench/README.md)";

} // namespace truestep::bench

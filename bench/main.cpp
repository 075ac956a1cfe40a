// Google Benchmark's main, except that an error is one line and exit status 2.
#include <cstdio>
#include <exception>

#include <benchmark/benchmark.h>

#include "benchmark_out.hpp"

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    truestep::bench::add_benchmark_context();
    try {
        benchmark::RunSpecifiedBenchmarks();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 2;
    }
    return 0;
}

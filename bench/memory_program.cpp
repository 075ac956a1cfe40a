// Compares the peak of resident memory of one rank's optimizer with section 4's formula. Each
// setting needs its own process, since freed memory is not returned reliably; bench/peak-memory
// runs them all.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <malloc.h>

#include <CLI/CLI.hpp>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/mpi.hpp>
#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/optimizer.hpp>

#include "benchmark_out.hpp"
#include "random_gradient.hpp"

namespace {

using namespace truestep;
using problem::Index;

struct Options {
    Index size = Index{1} << 22;
    double density = 0.01;
    int steps = 6;
    double limit = 0.05;
    double step_limit = 0.02;
    std::string communicator = "alone";
    bool header = false;
    std::string benchmark_out;
};

/// The bytes in a line of /proc/self/status.
double status_bytes(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == name + ":") {
            double kibibytes = 0;
            status >> kibibytes;
            return 1024 * kibibytes;
        }
    throw Error("/proc/self/status has no " + name + "; peak memory is read there, so this needs Linux");
}

/// Resets VmHWM, so that it is the peak from here on.
void forget_peak() {
    std::ofstream file("/proc/self/clear_refs");
    if (!(file << 5 << std::flush))
        throw Error("/proc/self/clear_refs cannot be written; the peak cannot be reset here");
}

/// Takes steps of a whole optimizer, as in training.
void take_steps(const Options& options, Index size, Communicator& communicator) {
    Settings settings;
    settings.density = DensitySchedule::constant(options.density);
    const auto d = static_cast<std::size_t>(size);
    auto optimizer =
        make_optimizer(Layout({{"all", size, false}}), settings, communicator, std::vector<float>(d, 1.0F));
    std::vector<float> gradient(d);
    for (int step = 1; step <= options.steps; ++step) {
        bench::fill_with_random(gradient, communicator.rank(), step);
        optimizer->step(gradient, 1e-3);
    }
    static_cast<void>(optimizer->coming_mask());
}

struct Measured {
    double peak;    ///< bytes
    double seconds; ///< of a step, with what the optimizer's beginning takes
};

/// Bytes above what the process held with a communicator, after steps of a small model. Code and
/// the communicator's own buffers are not in the formula.
Measured peak_of_rank(const Options& options, Communicator& communicator) {
    constexpr Index small = 1 << 14;
    take_steps(options, small, communicator);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 16}) {
        const std::vector<std::size_t> sizes(static_cast<std::size_t>(communicator.size()), bytes);
        std::vector<char> send(bytes * sizes.size());
        std::vector<char> receive(send.size());
        communicator.start_all_to_all(Traffic::payload, send.data(), sizes, receive.data(), sizes)->wait();
        communicator.start_all_gather(Traffic::moment, send.data(), receive.data(), sizes)->wait();
    }
    malloc_trim(0);
    forget_peak();
    const double before = status_bytes("VmRSS");
    const auto begin = std::chrono::steady_clock::now();
    take_steps(options, options.size, communicator);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return {status_bytes("VmHWM") - before, seconds.count() / options.steps};
}

/// Section 4's formula: w, g, e, two masks and m packed.
double formula_bytes(const Options& options) {
    const auto d = static_cast<double>(options.size);
    return 12 * d + d / 4 + 4 * options.density * d;
}

/// Memory that this step needs in addition: the payload beside m, the code of the coming mask,
/// which is being sent, and the words of its part.
double step_bytes(const Options& options, int ranks) {
    const auto d = static_cast<double>(options.size);
    const auto k = static_cast<Index>(options.density * d);
    const double code =
        ranks == 1 ? 0.0 : static_cast<double>(distributed::scape::coded_bytes(options.size, k));
    return formula_bytes(options) + 4 * options.density * d + code + d / 8 / ranks;
}

void report(const Options& options, int ranks, double peak) {
    const auto d = static_cast<double>(options.size);
    const double formula = formula_bytes(options);
    const double ratio = peak / formula;
    const double of_step = peak / step_bytes(options, ranks);
    const bool met = ratio <= 1 + options.limit && of_step <= 1 + options.step_limit;
    if (options.header)
        std::printf("%11s %4s %8s %12s %12s %12s %12s %8s %8s  %s\n", "d", "P", "density", "formula MiB",
                    "peak MiB", "formula B/d", "peak B/d", "ratio", "of step", "verdict");
    constexpr double mebibyte = 1 << 20;
    std::printf("%11lld %4d %8g %12.2f %12.2f %12.3f %12.3f %8.4f %8.4f  %s %g and %g %%\n",
                static_cast<long long>(options.size), ranks, options.density, formula / mebibyte,
                peak / mebibyte, formula / d, peak / d, ratio, of_step, met ? "within" : "OVER",
                100 * options.limit, 100 * options.step_limit);
}

/// Reports the rank that holds most.
void measure(const Options& options, Communicator& communicator) {
    const auto all = distributed::gather_records(communicator, peak_of_rank(options, communicator));
    if (communicator.rank() != 0)
        return;
    const Measured& most = *std::ranges::max_element(all, {}, &Measured::peak);
    report(options, communicator.size(), most.peak);
    char name[96];
    std::snprintf(name, sizeof name, "memory/d:%lld/density:%g/P:%d", static_cast<long long>(options.size),
                  options.density, communicator.size());
    bench::write_benchmark_out(options.benchmark_out,
                               {{name,
                                 {most.seconds},
                                 most.seconds,
                                 {{"peak_bytes", most.peak}, {"formula_bytes", formula_bytes(options)}}}});
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Peak resident memory of one rank's optimizer beside the formula of section 4.");
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::Range(Index{1}, Index{1} << 31));
    app.add_option("--density", options.density)->check(CLI::Range(1e-6, 1.0));
    app.add_option("--steps", options.steps)->check(CLI::PositiveNumber);
    app.add_option("--limit", options.limit, "how far over the formula is still met, as a share")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--step-limit", options.step_limit,
                   "the same, over the formula and what the step has besides")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--communicator", options.communicator, "alone, or mpi under mpirun")
        ->check(CLI::IsMember({"alone", "mpi"}));
    app.add_flag("--header", options.header, "print the names of the columns first");
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    CLI11_PARSE(app, argc, argv);
    try {
        if (options.communicator == "alone") {
            distributed::InProcessGroup group(1);
            measure(options, *group.communicator(0));
        } else {
            const distributed::MpiSession session(argc, argv);
            measure(options, *distributed::make_mpi_communicator());
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_memory: %s\n", error.what());
        return 2;
    }
}

// Many ranks, on one level and in groups of about sqrt(P): what a rank sends in a step, in how many
// messages, what its processor and its memory have to do with that, and how it grows with P. Ranks are
// threads, which share the machine's cores: the time of their processors is what counts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <malloc.h>

#include <CLI/CLI.hpp>

#include <scape/distributed/counting.hpp>
#include <scape/distributed/host_backend.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/distributed/levels.hpp>
#include <scape/distributed/scape.hpp>

#include "model/fit.hpp"
#include "random_gradient.hpp"

namespace {

using namespace scape;
using distributed::Communicator;
using distributed::Traffic;
using problem::Index;

struct Options {
    std::vector<int> ranks{4, 16, 64, 256};
    Index size = Index{1} << 16;
    double density = 0.01;
    int steps = 5;
};

/// Of a rank and step, the mean over both.
struct Row {
    int ranks;
    bool groups;
    double messages = 0;
    double agreement_messages = 0;
    double bytes = 0;
    double agreement_bytes = 0;
    double cpu = 0;           ///< seconds of a step
    double agreement_cpu = 0; ///< seconds of an agreement by itself
    double memory = 0;        ///< bytes that are held
};

double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// About sqrt(P) each, and what is left.
problem::Groups groups_of(int ranks) {
    const int size = static_cast<int>(std::lround(std::sqrt(ranks)));
    problem::Groups groups;
    for (int left = ranks; left > 0; left -= groups.back())
        groups.push_back(std::min(left, size));
    return groups;
}

double held_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

double total(const std::array<std::uint64_t, distributed::traffic_kinds>& counts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts)
        sum += count;
    return static_cast<double>(sum);
}

double of_agreement(const std::array<std::uint64_t, distributed::traffic_kinds>& counts) {
    return static_cast<double>(counts[static_cast<std::size_t>(Traffic::agreement)]);
}

/// Of one agreement by itself, as a step has it.
double agreement_seconds(const Row& row, Communicator& flat) {
    struct Record {
        std::uint64_t one, two;
    };
    constexpr int times = 20;
    distributed::LevelsCommunicator levels(flat, groups_of(row.ranks));
    const double begin = cpu_seconds();
    for (int turn = 0; turn < times; ++turn)
        static_cast<void>(distributed::gather_records(
            row.groups ? static_cast<Communicator&>(levels) : flat, Record{1, 2}));
    return (cpu_seconds() - begin) / times;
}

/// One rank's part; it returns what it has seen itself.
Row of_rank(const Options& options, const Row& row, Communicator& communicator, double before) {
    distributed::CountingCommunicator counting(communicator);
    problem::HyperParameters hyper;
    if (row.groups)
        hyper.groups = groups_of(row.ranks);
    problem::Layout layout({{"all", options.size, false}});
    auto ranges = problem::ranges(layout, row.ranks, problem::PartitionRule::by_shard);
    const auto problem = problem::make_problem(problem::Algorithm::scape, row.ranks, std::move(layout),
                                               problem::PartitionRule::by_shard, hyper);
    const std::vector<float> parameters(static_cast<std::size_t>(options.size), 1.0F);
    distributed::Scape optimizer(problem, std::move(ranges),
                                 problem::DensitySchedule::constant(options.density),
                                 distributed::make_host_backend(problem, parameters), counting, {});
    std::vector<float> gradient(parameters.size());
    const auto step = [&](int number) {
        bench::fill_with_random(gradient, communicator.rank(), number);
        optimizer.step(gradient, 1e-3);
    };
    constexpr int warm_up = 2;
    for (int number = 1; number <= warm_up; ++number)
        step(number);
    Row mine = row;
    counting.reset();
    for (int number = 1; number <= options.steps; ++number) {
        const double begin = cpu_seconds();
        optimizer.step(gradient, 1e-3);
        mine.cpu += (cpu_seconds() - begin) / options.steps;
    }
    static_cast<void>(optimizer.coming_mask());
    mine.agreement_cpu = agreement_seconds(row, communicator);
    mine.messages = total(counting.messages()) / options.steps;
    mine.agreement_messages = of_agreement(counting.messages()) / options.steps;
    mine.bytes = total(counting.bytes()) / options.steps;
    mine.agreement_bytes = of_agreement(counting.bytes()) / options.steps;
    // All hold what they hold between two steps.
    static_cast<void>(distributed::gather_records(communicator, 0));
    if (communicator.rank() == 0)
        mine.memory = (held_bytes() - before) / row.ranks;
    static_cast<void>(distributed::gather_records(communicator, 0));
    return mine;
}

void measure(const Options& options, Row& row) {
    std::vector<Row> all(static_cast<std::size_t>(row.ranks));
    const double before = held_bytes();
    distributed::run_ranks(
        row.ranks,
        [&](Communicator& communicator) {
            all[static_cast<std::size_t>(communicator.rank())] =
                of_rank(options, row, communicator, before);
        },
        std::chrono::minutes(10));
    for (const Row& mine : all) {
        row.messages += mine.messages / row.ranks;
        row.agreement_messages += mine.agreement_messages / row.ranks;
        row.bytes += mine.bytes / row.ranks;
        row.agreement_bytes += mine.agreement_bytes / row.ranks;
        row.cpu += mine.cpu / row.ranks;
        row.agreement_cpu += mine.agreement_cpu / row.ranks;
        row.memory += mine.memory;
    }
}

void fit(const std::vector<Row>& rows, bool groups, const char* what, double Row::*member) {
    model::Curve curve{groups ? "in groups" : "one level", {}, {}, true};
    for (const Row& row : rows)
        if (row.groups == groups) {
            curve.x.push_back(row.ranks);
            curve.y.push_back(row.*member);
        }
    if (const auto found = model::fit_power(curve, 1))
        std::printf("%-22s %-10s P^%.2f, residuals %.1f %%\n", what, curve.name.c_str(), found->exponent,
                    found->residual * 100);
}

void run(const Options& options) {
    std::printf("d = %lld, density %g, %d steps after 2; of a rank and step, the mean of all\n",
                static_cast<long long>(options.size), options.density, options.steps);
    std::printf("%4s %-10s %9s %9s %11s %11s %9s %12s %9s\n", "P", "groups", "messages", "agreement",
                "bytes", "agreement", "cpu ms", "agreement us", "held/12d");
    std::vector<Row> rows;
    for (const int ranks : options.ranks)
        for (const bool groups : {false, true}) {
            Row row{ranks, groups};
            measure(options, row);
            std::printf("%4d %-10s %9.1f %9.1f %11.0f %11.0f %9.3f %12.1f %9.3f\n", row.ranks,
                        groups ? "sqrt(P)" : "one level", row.messages, row.agreement_messages, row.bytes,
                        row.agreement_bytes, row.cpu * 1e3, row.agreement_cpu * 1e6,
                        row.memory / (12.0 * static_cast<double>(options.size)));
            std::fflush(stdout);
            rows.push_back(row);
        }
    std::printf("\n");
    for (const bool groups : {false, true}) {
        fit(rows, groups, "messages", &Row::messages);
        fit(rows, groups, "bytes", &Row::bytes);
        fit(rows, groups, "bytes of agreement", &Row::agreement_bytes);
        fit(rows, groups, "processor time", &Row::cpu);
        fit(rows, groups, "of agreement", &Row::agreement_cpu);
        fit(rows, groups, "memory held", &Row::memory);
    }
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("What a rank's step is made of as P grows, on one level and in groups.");
    app.add_option("--ranks", options.ranks, "threads")->delimiter(',')->check(CLI::Range(3, 1024));
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::PositiveNumber);
    app.add_option("--density", options.density, "share that is synchronized")
        ->check(CLI::Range(1e-9, 1.0));
    app.add_option("--steps", options.steps, "that are counted")->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_levels: %s\n", error.what());
        return 2;
    }
}

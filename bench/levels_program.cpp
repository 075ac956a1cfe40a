// Compares many ranks on one level with groups of about sqrt(P): bytes and messages of a rank's
// step, their cost in processor time and memory, and the growth with P. Ranks are threads or, under
// mpirun, processes. They share the machine's cores, so only processor time counts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/levels.hpp>
#include <truestep/distributed/mpi.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>

#include "benchmark_out.hpp"
#include "model/fit.hpp"
#include "random_gradient.hpp"

namespace {

using namespace truestep;
using distributed::Communicator;
using distributed::Traffic;
using problem::Index;

struct Options {
    std::vector<int> ranks{4, 16, 64, 256};
    Index size = Index{1} << 16;
    double density = 0.01;
    int steps = 5;
    std::string communicator = "threads";
    std::string rows;
    std::string benchmark_out;
};

/// Figures of one step of one rank, as means over steps and ranks.
struct Row {
    int ranks;
    bool groups;
    double messages = 0;
    double agreement_messages = 0;
    double bytes = 0;
    double agreement_bytes = 0;
    double cpu = 0;           ///< seconds of a step
    double agreement_cpu = 0; ///< seconds of an agreement by itself
    double memory = 0;        ///< bytes of allocations
    double resident = 0;      ///< bytes of memory that the kernel has provided
};

/// The measured figures, and their names in files.
const std::vector<std::pair<const char*, double Row::*>>& members() {
    static const std::vector<std::pair<const char*, double Row::*>> all{
        {"messages", &Row::messages}, {"agreement_messages", &Row::agreement_messages},
        {"bytes", &Row::bytes},       {"agreement_bytes", &Row::agreement_bytes},
        {"cpu_seconds", &Row::cpu},   {"agreement_cpu_seconds", &Row::agreement_cpu},
        {"held_bytes", &Row::memory}, {"resident_bytes", &Row::resident}};
    return all;
}

/// The time of a rank's thread, or of its process under MPI, whose transport may have its own
/// threads.
double cpu_seconds(const Options& options) {
    timespec time{};
    clock_gettime(options.communicator == "mpi" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID,
                  &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Memory of this process, with code and MPI; pages shared by n processes count 1/n.
double resident_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    double kibibytes = 0;
    while (file >> word)
        if (word == "Pss:" && file >> kibibytes)
            return 1024 * kibibytes;
    throw Error("there is no /proc/self/smaps_rollup that says what this process has; it takes Linux 4.14");
}

/// Groups of about sqrt(P) ranks, and one of the remainder.
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

/// Seconds of a single agreement as in a step.
double agreement_seconds(const Options& options, const Row& row, Communicator& flat) {
    struct Record {
        std::uint64_t one, two;
    };
    constexpr int times = 20;
    distributed::LevelsCommunicator levels(flat, groups_of(row.ranks));
    const double begin = cpu_seconds(options);
    for (int turn = 0; turn < times; ++turn)
        static_cast<void>(distributed::gather_records(
            row.groups ? static_cast<Communicator&>(levels) : flat, Record{1, 2}));
    return (cpu_seconds(options) - begin) / times;
}

/// One rank's part. Returns what it measured itself, and its share of its process. `before`: what
/// the process held before there were ranks.
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
    distributed::scape::Scape optimizer(
        problem, std::move(ranges), problem::DensitySchedule::constant(options.density),
        distributed::scape::make_host_backend(problem, parameters), counting, {});
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
        const double begin = cpu_seconds(options);
        optimizer.step(gradient, 1e-3);
        mine.cpu += (cpu_seconds(options) - begin) / options.steps;
    }
    static_cast<void>(optimizer.coming_mask());
    mine.agreement_cpu = agreement_seconds(options, row, communicator);
    mine.messages = total(counting.messages()) / options.steps;
    mine.agreement_messages = of_agreement(counting.messages()) / options.steps;
    mine.bytes = total(counting.bytes()) / options.steps;
    mine.agreement_bytes = of_agreement(counting.bytes()) / options.steps;
    // All ranks now hold the memory that they hold between two steps.
    static_cast<void>(distributed::gather_records(communicator, 0));
    const int together = options.communicator == "mpi" ? 1 : row.ranks;
    if (communicator.rank() % together == 0) {
        mine.memory = held_bytes() - before;
        mine.resident = resident_bytes();
    }
    static_cast<void>(distributed::gather_records(communicator, 0));
    return mine;
}

/// The mean of all ranks' figures.
Row mean_of(const Row& row, const std::vector<Row>& all) {
    Row mean{row.ranks, row.groups};
    for (const Row& mine : all)
        for (const auto& [name, member] : members())
            mean.*member += mine.*member / row.ranks;
    return mean;
}

Row measure_threads(const Options& options, const Row& row) {
    std::vector<Row> all(static_cast<std::size_t>(row.ranks));
    const double before = held_bytes();
    distributed::run_ranks(
        row.ranks,
        [&](Communicator& communicator) {
            all[static_cast<std::size_t>(communicator.rank())] =
                of_rank(options, row, communicator, before);
        },
        std::chrono::minutes(10));
    return mean_of(row, all);
}

/// mpirun runs it once for each P, and the last run prints the exponents.
using Rows = std::map<std::pair<int, bool>, Row>;

/// The rows that earlier runs of the same kind have left in the file. Lines of other kinds stay.
Rows read_rows(const Options& options) {
    Rows rows;
    std::ifstream file(options.rows);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number)
        try {
            const auto json = nlohmann::json::parse(line);
            if (json.at("communicator") != options.communicator || json.at("d") != options.size ||
                json.at("density") != options.density)
                continue;
            Row row{json.at("ranks"), json.at("groups")};
            for (const auto& [name, member] : members())
                row.*member = json.at(name);
            rows[{row.ranks, row.groups}] = row;
        } catch (const nlohmann::json::exception&) {
            throw Error(
                options.rows + ", line " + std::to_string(number) +
                ": this is not a row of bench_levels; give a file of its own, or one that is not there");
        }
    return rows;
}

void keep(const Options& options, const Row& row) {
    if (options.rows.empty())
        return;
    nlohmann::json json{{"communicator", options.communicator},
                        {"d", options.size},
                        {"density", options.density},
                        {"ranks", row.ranks},
                        {"groups", row.groups}};
    for (const auto& [name, member] : members())
        json[name] = row.*member;
    if (!(std::ofstream(options.rows, std::ios::app) << json.dump() << '\n'))
        throw Error("cannot write " + options.rows);
}

void fit(const Rows& rows, bool groups, const char* what, double Row::*member) {
    model::Curve curve{groups ? "in groups" : "one level", {}, {}, true};
    for (const auto& [key, row] : rows)
        if (row.groups == groups) {
            curve.x.push_back(row.ranks);
            curve.y.push_back(row.*member);
        }
    if (const auto found = model::fit_power(curve, 1))
        std::printf("%-22s %-10s P^%.2f, residuals %.1f %%\n", what, curve.name.c_str(), found->exponent,
                    found->residual * 100);
}

/// Its time is a rank's processor time: ranks share cores.
bench::BenchmarkRow benchmark_row(const Options& options, const Row& row) {
    char name[128];
    std::snprintf(name, sizeof name, "levels/%s/d:%lld/density:%g/P:%d%s",
                  row.groups ? "groups" : "one_level", static_cast<long long>(options.size),
                  options.density, row.ranks, options.communicator == "mpi" ? "/mpi" : "");
    bench::BenchmarkRow result{name, {row.cpu}, row.cpu};
    for (const auto& [member_name, member] : members())
        result.counters[member_name] = row.*member;
    return result;
}

/// Measures each P; one rank reports.
void run(const Options& options, const std::vector<int>& numbers, bool tells,
         const std::function<Row(const Row&)>& measure) {
    Rows rows;
    std::vector<bench::BenchmarkRow> written;
    if (tells) {
        rows = read_rows(options);
        std::printf("d = %lld, density %g, %s, %d steps after 2; of a rank and step, the mean of all\n",
                    static_cast<long long>(options.size), options.density, options.communicator.c_str(),
                    options.steps);
        std::printf("%4s %-10s %9s %9s %11s %11s %9s %12s %9s %12s\n", "P", "groups", "messages",
                    "agreement", "bytes", "agreement", "cpu ms", "agreement us", "held/12d",
                    "resident MiB");
    }
    for (const int ranks : numbers)
        for (const bool groups : {false, true}) {
            const Row row = measure({ranks, groups});
            if (!tells)
                continue;
            std::printf("%4d %-10s %9.1f %9.1f %11.0f %11.0f %9.3f %12.1f %9.3f %12.2f\n", row.ranks,
                        groups ? "sqrt(P)" : "one level", row.messages, row.agreement_messages, row.bytes,
                        row.agreement_bytes, row.cpu * 1e3, row.agreement_cpu * 1e6,
                        row.memory / (12.0 * static_cast<double>(options.size)),
                        row.resident / (1024.0 * 1024.0));
            std::fflush(stdout);
            keep(options, row);
            rows[{ranks, groups}] = row;
            written.push_back(benchmark_row(options, row));
        }
    if (!tells)
        return;
    bench::write_benchmark_out(options.benchmark_out, written);
    std::printf("\n");
    for (const bool groups : {false, true}) {
        fit(rows, groups, "messages", &Row::messages);
        fit(rows, groups, "bytes", &Row::bytes);
        fit(rows, groups, "bytes of agreement", &Row::agreement_bytes);
        fit(rows, groups, "processor time", &Row::cpu);
        fit(rows, groups, "of agreement", &Row::agreement_cpu);
        fit(rows, groups, "memory held", &Row::memory);
        fit(rows, groups, "resident", &Row::resident);
    }
}

void run_processes(const Options& options) {
    const auto all = distributed::make_mpi_communicator({std::chrono::minutes(10)});
    if (all->size() < 3)
        throw Error("P is " + std::to_string(all->size()) + "; groups take 3 ranks or more: mpirun -n 3");
    const double before = held_bytes();
    run(options, {all->size()}, all->rank() == 0, [&](const Row& row) {
        const Row mine = of_rank(options, row, *all, before);
        return mean_of(row, distributed::gather_records(*all, mine));
    });
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("What a rank's step is made of as P grows, on one level and in groups.");
    app.add_option("--ranks", options.ranks, "threads; under mpirun it decides")
        ->delimiter(',')
        ->check(CLI::Range(3, 1024));
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::PositiveNumber);
    app.add_option("--density", options.density, "share that is synchronized")
        ->check(CLI::Range(1e-9, 1.0));
    app.add_option("--steps", options.steps, "that are counted")->check(CLI::PositiveNumber);
    app.add_option("--communicator", options.communicator, "threads, or mpi under mpirun")
        ->check(CLI::IsMember({"threads", "mpi"}));
    app.add_option("--rows", options.rows,
                   "a file to add the rows to; exponents are then of all in it, of one kind");
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    CLI11_PARSE(app, argc, argv);
    try {
        if (options.communicator == "threads") {
            run(options, options.ranks, true,
                [&](const Row& row) { return measure_threads(options, row); });
            return 0;
        }
        const distributed::MpiSession session(argc, argv);
        run_processes(options);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_levels: %s\n", error.what());
        return 2;
    }
}

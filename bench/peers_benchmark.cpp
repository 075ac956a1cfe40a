// Every peer's step in one run, taken in turns, over ranks that are threads or, under mpirun, processes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <scape/distributed/counting.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/distributed/mpi.hpp>
#include <scape/problem/error.hpp>

#include "peers/check.hpp"
#include "random_gradient.hpp"

namespace {

using namespace scape;
using peers::Index;
using peers::Setting;

struct Options {
    Index size = Index{1} << 22;
    int ranks = 4;
    std::vector<std::string> peers;
    int steps = 9;
    int warm_up = 5;
    Index check_size = 20'011;
    std::string communicator = "threads";
    std::string interface;
    std::string json;
    std::string title;
    int timeout = 300;
};

/// "scape:0.1" is the peer scape at density 0.1.
struct Row {
    std::string name;
    Setting setting;
    std::unique_ptr<peers::Peer> peer;
    Index wrong = 0;
    double formula = 0; ///< bytes that a rank sends to others, the mean of all ranks
    std::vector<double> seconds{};
    std::vector<double> cpu{};
    std::vector<double> counted{};
    std::vector<double> kernel{};
};

std::vector<std::string> all_peers() {
    std::vector<std::string> result;
    for (const peers::Kind& kind : peers::kinds())
        result.push_back(std::string(kind.name) + (kind.sparse ? ":0.01" : ""));
    result.emplace_back("scape:0.1");
    return result;
}

Row row_of(const std::string& text, Index size) {
    const std::size_t colon = text.find(':');
    Row row{text, {size, 0.01, {}}, nullptr};
    row.name = std::string(peers::kind_of(text.substr(0, colon)).name);
    if (colon != std::string::npos) {
        char* end = nullptr;
        row.setting.density = std::strtod(text.c_str() + colon + 1, &end);
        if (*end != '\0' || !(row.setting.density > 0 && row.setting.density <= 1))
            throw Error("peer is '" + text + "'; its density must be a number in (0, 1]");
    }
    return row;
}

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Half of the distance between the quartiles, as a share of the median.
double spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
        return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
    };
    return (at(0.75) - at(0.25)) / 2 / median(values);
}

double cpu_seconds(bool process) {
    timespec time{};
    clock_gettime(process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What the kernel says this rank's interface has sent.
std::uint64_t kernel_bytes(const std::string& interface) {
    std::uint64_t bytes = 0;
    if (!interface.empty() &&
        !(std::ifstream("/sys/class/net/" + interface + "/statistics/tx_bytes") >> bytes))
        throw Error("there is no interface " + interface + " to count on");
    return bytes;
}

/// One rank's part of the whole run. Rank 0 returns the rows with all that was measured.
std::vector<Row> measure(const Options& options, distributed::Communicator& inner) {
    using Clock = std::chrono::steady_clock;
    distributed::CountingCommunicator communicator(inner);
    std::vector<Row> rows;
    for (const std::string& text : options.peers) {
        rows.push_back(row_of(text, options.size));
        Row& row = rows.back();
        const Setting small{std::min(options.size, options.check_size), row.setting.density, {}};
        const Index wrong = peers::wrong_parameters(row.name, small, inner, 3);
        for (const Index of_rank : distributed::gather_records(inner, wrong))
            row.wrong += of_rank;
        for (int rank = 0; rank < inner.size(); ++rank)
            row.formula += peers::formula_bytes(row.name, row.setting, inner.size(), rank) / inner.size();
    }
    // A few gradients, taken in turns: with two, residuals would grow as they never do.
    std::vector<std::vector<float>> gradients(8);
    for (std::size_t step = 0; step < gradients.size(); ++step) {
        gradients[step].resize(static_cast<std::size_t>(options.size));
        bench::fill_with_random(gradients[step], inner.rank(), static_cast<int>(step));
    }
    const std::vector<float> start(static_cast<std::size_t>(options.size), 1.0F);
    for (Row& row : rows)
        row.peer = peers::make_peer(row.name, row.setting, communicator, start);

    const bool process = options.communicator == "mpi";
    struct Measured {
        double seconds;
        double cpu;
        double counted;
        double kernel;
    };
    for (int step = -options.warm_up; step < options.steps; ++step)
        for (Row& row : rows) {
            static_cast<void>(distributed::gather_records(inner, step)); // all begin together
            communicator.reset();
            const std::uint64_t kernel = kernel_bytes(options.interface);
            const double cpu = cpu_seconds(process);
            const auto begin = Clock::now();
            row.peer->step(gradients[static_cast<std::size_t>(step + options.warm_up) % gradients.size()],
                           1e-3);
            row.peer->finish();
            const std::chrono::duration<double> seconds = Clock::now() - begin;
            Measured mine{seconds.count(), cpu_seconds(process) - cpu, 0, 0};
            for (const std::uint64_t bytes : communicator.bytes())
                mine.counted += static_cast<double>(bytes);
            static_cast<void>(distributed::gather_records(inner, step)); // all have ended
            mine.kernel = static_cast<double>(kernel_bytes(options.interface) - kernel);
            const auto all = distributed::gather_records(inner, mine);
            if (step < 0)
                continue;
            Measured whole{0, 0, 0, 0};
            for (const Measured& of_rank : all) {
                whole.seconds = std::max(whole.seconds, of_rank.seconds);
                whole.cpu += of_rank.cpu / inner.size();
                whole.counted += of_rank.counted / inner.size();
                whole.kernel += of_rank.kernel / inner.size();
            }
            row.seconds.push_back(whole.seconds);
            row.cpu.push_back(whole.cpu);
            row.counted.push_back(whole.counted);
            row.kernel.push_back(whole.kernel);
        }
    for (Row& row : rows)
        row.peer.reset();
    return rows;
}

void print(const Options& options, const std::vector<Row>& rows, const std::string& communicator) {
    std::printf("%s%sd = %lld, P = %d, %s, %d steps each, in turns; bytes are a rank's, of one step\n",
                options.title.c_str(), options.title.empty() ? "" : ": ",
                static_cast<long long>(options.size), options.ranks, communicator.c_str(), options.steps);
    std::printf("%-15s %7s %9s %9s %7s %8s %8s %12s %12s %12s %8s %6s\n", "peer", "density", "step ms",
                "least ms", "spread", "x dense", "cpu ms", "formula B", "counted B", "kernel B", "B/param",
                "#wrong");
    double dense = 0;
    for (const Row& row : rows)
        if (row.name == "dense")
            dense = median(row.seconds);
    nlohmann::json json;
    json["d"] = options.size;
    json["ranks"] = options.ranks;
    json["communicator"] = communicator;
    json["title"] = options.title;
    json["steps"] = options.steps;
    for (const Row& row : rows) {
        const peers::Kind& kind = peers::kind_of(row.name);
        const double seconds = median(row.seconds);
        const double least = *std::min_element(row.seconds.begin(), row.seconds.end());
        const double counted = mean(row.counted);
        const double kernel = mean(row.kernel);
        char density[16] = "-";
        if (kind.sparse)
            std::snprintf(density, sizeof density, "%g", row.setting.density);
        char on_wire[24] = "-";
        if (!options.interface.empty())
            std::snprintf(on_wire, sizeof on_wire, "%.0f", kernel);
        std::printf("%-15s %7s %9.2f %9.2f %6.1f%% %8.2f %8.2f %12.0f %12.0f %12s %8.4f %6lld\n",
                    row.name.c_str(), density, seconds * 1e3, least * 1e3, spread(row.seconds) * 100,
                    dense / seconds, median(row.cpu) * 1e3, row.formula, counted, on_wire,
                    counted / static_cast<double>(options.size), static_cast<long long>(row.wrong));
        json["rows"].push_back({{"peer", row.name},
                                {"density", kind.sparse ? row.setting.density : 1.0},
                                {"seconds", row.seconds},
                                {"median_seconds", seconds},
                                {"least_seconds", least},
                                {"spread", spread(row.seconds)},
                                {"cpu_seconds", median(row.cpu)},
                                {"speed_up_over_dense", dense / seconds},
                                {"formula_bytes", row.formula},
                                {"counted_bytes", counted},
                                {"interface_bytes", kernel},
                                {"wrong", row.wrong}});
    }
    if (!options.json.empty() && !(std::ofstream(options.json) << json.dump(1) << '\n'))
        throw Error("cannot write " + options.json);
}

int run(const Options& options) {
    bool wrong = false;
    const auto report = [&](const std::vector<Row>& rows, const std::string& communicator, int ranks) {
        Options told = options;
        told.ranks = ranks;
        print(told, rows, communicator);
        for (const Row& row : rows)
            wrong = wrong || row.wrong != 0;
    };
    if (options.communicator == "threads") {
        std::vector<Row> rows;
        distributed::run_ranks(
            options.ranks,
            [&](distributed::Communicator& communicator) {
                auto measured = measure(options, communicator);
                if (communicator.rank() == 0)
                    rows = std::move(measured);
            },
            std::chrono::seconds(options.timeout));
        report(rows, "threads", options.ranks);
    } else {
        const auto communicator =
            distributed::make_mpi_communicator({std::chrono::seconds(options.timeout)});
        const auto rows = measure(options, *communicator);
        if (communicator->rank() == 0)
            report(rows, "mpi", communicator->size());
    }
    return wrong ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Times every peer's step in one run, in turns, and counts what it sends.");
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::Range(Index{1}, Index{1} << 31));
    app.add_option("-P,--ranks", options.ranks, "threads; under mpirun it decides")
        ->check(CLI::Range(1, 256));
    app.add_option("--peers", options.peers, "which, as NAME or NAME:DENSITY; all, if none is given")
        ->delimiter(',');
    app.add_option("--steps", options.steps, "timed, of each")->check(CLI::PositiveNumber);
    app.add_option("--warm-up", options.warm_up, "not timed, of each")->check(CLI::NonNegativeNumber);
    app.add_option("--communicator", options.communicator, "threads, or mpi under mpirun")
        ->check(CLI::IsMember({"threads", "mpi"}));
    app.add_option("--interface", options.interface, "also count what this network interface sends");
    app.add_option("--json", options.json, "also write the figures to this file");
    app.add_option("--title", options.title, "what to say before the table");
    app.add_option("--timeout", options.timeout, "seconds until a rank that does not answer ends all")
        ->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    if (options.peers.empty())
        options.peers = all_peers();
    try {
        for (const std::string& text : options.peers)
            static_cast<void>(row_of(text, options.size));
        if (options.communicator == "threads")
            return run(options);
        const distributed::MpiSession session(argc, argv);
        return run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_peers: %s\n", error.what());
        return 2;
    }
}

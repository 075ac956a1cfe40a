// Every peer's step in one run, taken in turns, over ranks that are threads or, under mpirun, processes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <scape/distributed/aligned.hpp>
#include <scape/distributed/counting.hpp>
#include <scape/distributed/counting_peers.hpp>
#include <scape/distributed/mpi.hpp>
#include <scape/problem/error.hpp>

#include "peers/check.hpp"
#include "peers/links.hpp"
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

/// What one rank, or all together, took for one action.
struct Measured {
    double seconds = 0;
    double cpu = 0;
    double counted = 0; ///< bytes, as those that count have seen them
    double kernel = 0;

    void add(const Measured& other, double times) {
        seconds += times * other.seconds;
        cpu += times * other.cpu;
        counted += times * other.counted;
        kernel += times * other.kernel;
    }
};

/// One peer. Its figures are of a step, the mean of a rank's; `formula` and what is held against it are of
/// a round of all ranks, in whole bytes.
struct Row {
    const peers::Kind* kind;
    Setting setting;
    std::unique_ptr<peers::Peer> peer{};
    Index wrong = 0;
    double formula = 0;
    std::optional<double> unlike{}; ///< what has been counted and is not the formula's, the last of such
    std::vector<double> seconds{};
    std::vector<double> cpu{};
    std::vector<double> counted{};
    std::vector<double> kernel{};

    [[nodiscard]] double inner_steps() const {
        return static_cast<double>(peers::inner_steps(*kind, setting));
    }
};

std::vector<std::string> all_peers() {
    std::vector<std::string> result;
    for (const peers::Kind& kind : peers::kinds())
        result.emplace_back(kind.name);
    result.emplace_back("scape:0.1");
    return result;
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

/// One rank's part of the whole run.
class Run {
  public:
    Run(const Options& options, const peers::Links& links)
        : options_(options), bare_(links), all_(links.all), each_(links.each) {
        // A few gradients, taken in turns: with two, residuals would grow as they never do.
        for (std::size_t step = 0; step < gradients_.size(); ++step) {
            gradients_[step].resize(static_cast<std::size_t>(options.size));
            bench::fill_with_random(gradients_[step], links.all.rank(), static_cast<int>(step));
        }
    }

    /// The rows with all that was measured, the same on all ranks.
    std::vector<Row> rows() {
        std::vector<Row> rows;
        for (const std::string& text : options_.peers) {
            const peers::Choice choice = peers::parse(text, options_.size);
            rows.push_back({choice.kind, choice.setting});
            check(rows.back());
        }
        const std::vector<float> start(static_cast<std::size_t>(options_.size), 1.0F);
        for (Row& row : rows)
            row.peer = peers::make_peer(row.kind->name, row.setting, {all_, each_}, start);
        for (int turn = 0; turn < options_.warm_up + options_.steps; ++turn)
            for (Row& row : rows) {
                const Measured whole = take_turn(row, static_cast<std::size_t>(turn));
                // What is sent in the very first round is another matter.
                if (turn > 0 && row.kind->fixed_size && whole.counted != row.formula)
                    row.unlike = whole.counted;
                if (turn < options_.warm_up)
                    continue;
                row.seconds.push_back(whole.seconds / row.inner_steps());
                row.cpu.push_back(whole.cpu / row.inner_steps());
                row.counted.push_back(whole.counted / row.inner_steps() / bare_.all.size());
                row.kernel.push_back(whole.kernel / row.inner_steps());
            }
        for (Row& row : rows)
            row.peer.reset();
        return rows;
    }

  private:
    void check(Row& row) {
        row.formula = peers::formula_bytes(row.kind->name, row.setting, bare_.all.size());
        // Rounds of many steps are checked on fewer parameters: the reference makes them for all ranks.
        Setting small = row.setting;
        const auto steps = static_cast<Index>(row.inner_steps());
        small.size = std::min(options_.size, std::max(options_.check_size / steps, Index{1009}));
        const Index wrong = peers::wrong_parameters(row.kind->name, small, bare_, 3);
        for (const Index of_rank : distributed::gather_records(bare_.all, wrong))
            row.wrong += of_rank;
    }

    /// A round of the row's peer. Of many inner steps only the first is taken, which reads other vectors
    /// than it writes, and a few of the others, which are all alike: enough that what disturbs one of them
    /// does not count H times.
    Measured take_turn(Row& row, std::size_t turn) {
        constexpr double learning_rate = 1e-3;
        const auto gradient = [&](Index later) -> const distributed::AlignedFloats& {
            return gradients_[(turn + static_cast<std::size_t>(later)) % gradients_.size()];
        };
        peers::LocalPeer* const local = row.peer->local();
        if (local == nullptr)
            return timed([&] {
                row.peer->step(gradient(0), learning_rate);
                row.peer->finish();
            });
        Measured whole = timed([&] { local->inner_step(gradient(0), learning_rate); });
        const Index others = row.setting.inner_steps - 1;
        const Index taken = std::min(others, Index{4});
        if (taken > 0)
            whole.add(timed([&] {
                          for (Index later = 1; later <= taken; ++later)
                              local->inner_step(gradient(later), learning_rate);
                      }),
                      static_cast<double>(others) / static_cast<double>(taken));
        whole.add(timed([&] {
                      local->end_round();
                      local->finish();
                  }),
                  1);
        return whole;
    }

    /// The action on all ranks: the slowest one's time, the mean of what their processors and interfaces
    /// have done, and the bytes of all.
    template <class Action>
    Measured timed(const Action& action) {
        using Clock = std::chrono::steady_clock;
        const bool process = options_.communicator == "mpi";
        static_cast<void>(distributed::gather_records(bare_.all, 0)); // all begin together
        all_.reset();
        each_.reset();
        const std::uint64_t kernel = kernel_bytes(options_.interface);
        const double cpu = cpu_seconds(process);
        const auto begin = Clock::now();
        action();
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        Measured mine{seconds.count(), cpu_seconds(process) - cpu};
        for (const std::uint64_t bytes : all_.bytes())
            mine.counted += static_cast<double>(bytes);
        for (const std::uint64_t bytes : each_.bytes())
            mine.counted += static_cast<double>(bytes);
        static_cast<void>(distributed::gather_records(bare_.all, 0)); // all have ended
        mine.kernel = static_cast<double>(kernel_bytes(options_.interface) - kernel);
        Measured whole;
        for (const Measured& of_rank : distributed::gather_records(bare_.all, mine)) {
            whole.seconds = std::max(whole.seconds, of_rank.seconds);
            whole.cpu += of_rank.cpu / bare_.all.size();
            whole.counted += of_rank.counted;
            whole.kernel += of_rank.kernel / bare_.all.size();
        }
        return whole;
    }

    const Options& options_;
    peers::Links bare_;
    distributed::CountingCommunicator all_;
    distributed::CountingPeers each_;
    std::array<distributed::AlignedFloats, 8> gradients_;
};

/// "0.01", "H=30" or "-".
std::string number_text(const Row& row) {
    char text[32] = "-";
    if (row.kind->number == peers::Number::density)
        std::snprintf(text, sizeof text, "%g", row.setting.density);
    if (row.kind->number == peers::Number::inner_steps)
        std::snprintf(text, sizeof text, "H=%g", row.inner_steps());
    return text;
}

void print(const Options& options, const std::vector<Row>& rows, const std::string& communicator) {
    std::printf("%s%sd = %lld, P = %d, %s, %d steps each, in turns; bytes are a rank's, of one step\n",
                options.title.c_str(), options.title.empty() ? "" : ": ",
                static_cast<long long>(options.size), options.ranks, communicator.c_str(), options.steps);
    std::printf("%-15s %7s %9s %9s %7s %8s %8s %12s %12s %12s %8s %6s\n", "peer", "number", "step ms",
                "least ms", "spread", "x dense", "cpu ms", "formula B", "counted B", "kernel B", "B/param",
                "#wrong");
    double dense = 0;
    for (const Row& row : rows)
        if (row.kind->name == "dense")
            dense = median(row.seconds);
    nlohmann::json json;
    json["d"] = options.size;
    json["ranks"] = options.ranks;
    json["communicator"] = communicator;
    json["title"] = options.title;
    json["steps"] = options.steps;
    for (const Row& row : rows) {
        const std::string name(row.kind->name);
        const double seconds = median(row.seconds);
        const double least = *std::min_element(row.seconds.begin(), row.seconds.end());
        const double formula = row.formula / row.inner_steps() / options.ranks;
        const double counted = mean(row.counted);
        const double kernel = mean(row.kernel);
        char on_wire[24] = "-";
        if (!options.interface.empty())
            std::snprintf(on_wire, sizeof on_wire, "%.0f", kernel);
        std::printf("%-15s %7s %9.2f %9.2f %6.1f%% %8.2f %8.2f %12.0f %12.0f %12s %8.4f %6lld\n",
                    name.c_str(), number_text(row).c_str(), seconds * 1e3, least * 1e3,
                    spread(row.seconds) * 100, dense / seconds, median(row.cpu) * 1e3, formula, counted,
                    on_wire, counted / static_cast<double>(options.size),
                    static_cast<long long>(row.wrong));
        const bool sparse = row.kind->number == peers::Number::density;
        json["rows"].push_back({{"peer", name},
                                {"density", sparse ? row.setting.density : 1.0},
                                {"inner_steps", row.inner_steps()},
                                {"seconds", row.seconds},
                                {"median_seconds", seconds},
                                {"least_seconds", least},
                                {"spread", spread(row.seconds)},
                                {"cpu_seconds", median(row.cpu)},
                                {"speed_up_over_dense", dense / seconds},
                                {"formula_bytes", formula},
                                {"counted_bytes", counted},
                                {"interface_bytes", kernel},
                                {"wrong", row.wrong}});
    }
    if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.inner_steps() > 1; }))
        std::printf("H=...: a step is 1/H of a round, put together from its first inner step, H-1 times "
                    "the mean of up to four others,\nand its exchange, each of the three timed from a "
                    "common start\n");
    if (!options.json.empty() && !(std::ofstream(options.json) << json.dump(1) << '\n'))
        throw Error("cannot write " + options.json);
}

/// False, with a line each, for rows that other peers than those named have made, or other bytes.
bool in_order(const std::vector<Row>& rows) {
    bool good = true;
    for (const Row& row : rows) {
        good = good && row.wrong == 0;
        if (!row.unlike)
            continue;
        good = false;
        std::fprintf(stderr,
                     "bench_peers: %s %s: all ranks together sent %.0f bytes in a round where the formula "
                     "has %.0f; one of the two is wrong\n",
                     std::string(row.kind->name).c_str(), number_text(row).c_str(), *row.unlike,
                     row.formula);
    }
    return good;
}

int run(const Options& options) {
    bool good = true;
    const auto report = [&](const std::vector<Row>& rows, const std::string& communicator, int ranks) {
        Options told = options;
        told.ranks = ranks;
        print(told, rows, communicator);
        good = in_order(rows);
    };
    const std::chrono::seconds timeout(options.timeout);
    if (options.communicator == "threads") {
        std::vector<Row> rows;
        peers::run_linked(
            options.ranks,
            [&](const peers::Links& links) {
                auto measured = Run(options, links).rows();
                if (links.all.rank() == 0)
                    rows = std::move(measured);
            },
            timeout);
        report(rows, "threads", options.ranks);
    } else {
        const auto all = distributed::make_mpi_communicator({timeout});
        const auto each = distributed::make_mpi_peers({timeout});
        const auto rows = Run(options, {*all, *each}).rows();
        if (all->rank() == 0)
            report(rows, "mpi", all->size());
    }
    return good ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Times every peer's step in one run, in turns, and counts what it sends.");
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::Range(Index{1}, Index{1} << 31));
    app.add_option("-P,--ranks", options.ranks, "threads; under mpirun it decides")
        ->check(CLI::Range(1, 256));
    app.add_option(
           "--peers", options.peers,
           "which, as NAME, NAME:DENSITY or NAME:H, such as scape:0.1 and gasloc:30; all, if none is "
           "given")
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
            static_cast<void>(peers::parse(text, options.size));
        if (options.communicator == "threads")
            return run(options);
        const distributed::MpiSession session(argc, argv);
        return run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_peers: %s\n", error.what());
        return 2;
    }
}

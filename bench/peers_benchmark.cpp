// Every peer's step in one run, taken in turns, over ranks that are threads or, under mpirun, processes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <scape/distributed/aligned.hpp>
#include <scape/distributed/counting.hpp>
#include <scape/distributed/counting_peers.hpp>
#include <scape/distributed/mpi.hpp>
#include <scape/problem/error.hpp>

#include "peers/check.hpp"
#include "peers/links.hpp"
#include "peers_report.hpp"
#include "random_gradient.hpp"

namespace {

using namespace scape;
using bench::Figures;
using bench::Options;
using bench::Row;
using peers::Index;
using peers::Setting;

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

std::vector<std::string> all_peers() {
    std::vector<std::string> result;
    for (const peers::Kind& kind : peers::kinds())
        result.emplace_back(kind.name);
    result.emplace_back("scape:0.1");
    return result;
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
        copied_ = gradients_[0];
    }

    /// All that was measured, the same on all ranks.
    Figures figures() {
        Figures figures;
        std::vector<Row>& rows = figures.rows;
        for (const std::string& text : options_.peers) {
            const peers::Choice choice = peers::parse(text, options_.size);
            rows.push_back({choice.kind, choice.setting});
            check(rows.back());
        }
        const std::vector<float> start(static_cast<std::size_t>(options_.size), 1.0F);
        for (Row& row : rows)
            row.peer = peers::make_peer(row.kind->name, row.setting, {all_, each_}, start);
        for (int turn = 0; turn < options_.warm_up + options_.steps; ++turn) {
            const double copied = copy_speed();
            if (turn >= options_.warm_up)
                figures.copies.push_back(copied);
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
        }
        for (Row& row : rows)
            row.peer.reset();
        return figures;
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

    /// Bytes a second that a rank reads and writes where all ranks copy vectors of d: in turns with the
    /// steps, so that whatever the machine does meets both. Ranks that share its cores or its memory share
    /// them here, too, so nobody has to know which of them do.
    double copy_speed() {
        const double bytes = 8.0 * static_cast<double>(copied_.size());
        constexpr double enough = 64.0 * (1 << 20); // so that how ranks begin does not count
        const auto times = static_cast<std::size_t>(std::ceil(enough / bytes));
        const Measured whole = timed([&] {
            for (std::size_t time = 0; time < times; ++time)
                std::memcpy(copied_.data(), gradients_[time % gradients_.size()].data(),
                            copied_.size() * sizeof(float));
        });
        return bytes * static_cast<double>(times) / whole.seconds;
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
    distributed::AlignedFloats copied_;
};

int run(const Options& options) {
    bool good = true;
    const auto report = [&](const Figures& figures, int ranks) {
        Options told = options;
        told.ranks = ranks;
        bench::print(told, figures);
        good = bench::in_order(figures.rows);
    };
    const std::chrono::seconds timeout(options.timeout);
    if (options.communicator == "threads") {
        Figures figures;
        peers::run_linked(
            options.ranks,
            [&](const peers::Links& links) {
                auto measured = Run(options, links).figures();
                if (links.all.rank() == 0)
                    figures = std::move(measured);
            },
            timeout);
        report(figures, options.ranks);
    } else {
        const auto all = distributed::make_mpi_communicator({timeout});
        const auto each = distributed::make_mpi_peers({timeout});
        const Figures figures = Run(options, {*all, *each}).figures();
        if (all->rank() == 0)
            report(figures, all->size());
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
    app.add_option("--rate", options.rate,
                   "of a rank's link each way, as tc writes it: 1gbit, 100mbit; for x limit")
        ->transform(CLI::AsNumberWithUnit(
            std::map<std::string, double>{{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}},
            CLI::AsNumberWithUnit::CASE_INSENSITIVE, "RATE"))
        ->check(CLI::PositiveNumber);
    app.add_option("--delay", options.delay,
                   "of a frame from rank to rank, where the network has one; is told")
        ->transform(
            CLI::AsNumberWithUnit(std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                                  CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
        ->check(CLI::NonNegativeNumber);
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
        if (options.communicator == "threads" && options.rate > 0)
            throw Error("--rate is of a link, which threads have none of; leave it out, or take "
                        "--communicator mpi under mpirun");
        if (options.communicator == "threads")
            return run(options);
        const distributed::MpiSession session(argc, argv);
        return run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_peers: %s\n", error.what());
        return 2;
    }
}

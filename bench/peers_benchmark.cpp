// Times every peer's step in one run, in turns, over ranks that are threads or, under mpirun,
// processes.
#include <algorithm>
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

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "benchmark_out.hpp"
#include "peers/check.hpp"
#include "peers/links.hpp"
#include "peers_report.hpp"
#include "random_gradient.hpp"

namespace {

using namespace truestep;
using bench::Figures;
using bench::Options;
using bench::Row;
using peers::Index;
using peers::Setting;

/// Figures of one action, of one rank or of all together.
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
    result.emplace_back("scape-using-up:0.1");
    return result;
}

double cpu_seconds(bool process) {
    timespec time{};
    clock_gettime(process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The bytes that this rank's interface has sent, as the kernel counts them.
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
        const bool local = std::ranges::any_of(options.peers, [&](const std::string& text) {
            return peers::parse(text, options.size).kind->number == peers::Number::inner_steps;
        });
        gradients_.resize(std::max<std::size_t>(local ? 1 + others_taken : 1, copies_at_once()));
        for (auto& gradient : gradients_)
            gradient.resize(static_cast<std::size_t>(options.size));
        copied_.resize(static_cast<std::size_t>(options.size));
    }

    /// All figures; the same on all ranks.
    Figures figures() {
        Figures figures;
        std::vector<Row>& rows = figures.rows;
        for (const std::string& text : options_.peers) {
            const peers::Choice choice = peers::parse(text, options_.size);
            rows.push_back({choice.kind, choice.setting});
            rows.back().setting.threads = options_.threads;
            check(rows.back());
        }
        make_peers(rows);
        for (int turn = 0; turn < options_.warm_up + options_.steps; ++turn) {
            const bool all = turn >= options_.warm_up - bench::most_warm_up_of_others;
            make_gradients(static_cast<std::size_t>(turn), rows);
            if (all) {
                const double copied = copy_speed();
                if (turn >= options_.warm_up)
                    figures.copies.push_back(copied);
            }
            for (Row& row : rows) {
                if (!all && row.kind->number != peers::Number::density)
                    continue;
                const Measured whole = take_turn(row, static_cast<std::size_t>(turn));
                // The very first round sends other amounts.
                if (++row.rounds > 1 && row.kind->fixed_size && whole.counted != row.formula)
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
    static constexpr std::size_t others_taken = 4; ///< inner steps of a round at most, beside the first

    void make_peers(std::vector<Row>& rows) {
        const std::vector<float> start(static_cast<std::size_t>(options_.size), 1.0F);
        for (Row& row : rows) {
            row.peer = peers::make_peer(row.kind->name, row.setting, {all_, each_}, start);
            if (row.kind->uses_up)
                row.given.resize(start.size());
        }
    }

    [[nodiscard]] distributed::AlignedFloats& gradient(std::size_t step) {
        return gradients_[step % gradients_.size()];
    }

    /// Makes the gradients of the turn, before anything is timed in it. None comes twice: else
    /// residuals grow as they never do in training, and the selection's threshold, which a step
    /// predicts from the last ones, jumps.
    void make_gradients(std::size_t turn, std::vector<Row>& rows) {
        const std::size_t known = turn == 0 ? 0 : turn + gradients_.size() - 1;
        for (std::size_t step = known; step < turn + gradients_.size(); ++step)
            bench::fill_with_random(gradient(step), bare_.all.rank(), static_cast<int>(step));
        for (Row& row : rows)
            if (row.kind->uses_up)
                std::ranges::copy(gradient(turn), row.given.begin());
    }

    void check(Row& row) {
        row.formula = peers::formula_bytes(row.kind->name, row.setting, bare_.all.size());
        // Rounds of many steps are checked on fewer parameters, since the reference makes them for
        // all ranks.
        Setting small = row.setting;
        const auto steps = static_cast<Index>(row.inner_steps());
        small.size = std::min(options_.size, std::max(options_.check_size / steps, Index{1009}));
        const Index wrong = peers::wrong_parameters(row.kind->name, small, bare_, 3);
        for (const Index of_rank : distributed::gather_records(bare_.all, wrong))
            row.wrong += of_rank;
    }

    /// Bytes per second that a rank reads and writes while all ranks copy vectors of d. Copies take
    /// turns with the steps, so that disturbances affect both. Ranks share the same cores and
    /// memory as in a step, so their placement need not be known.
    double copy_speed() {
        const double bytes = 8.0 * static_cast<double>(copied_.size());
        const std::size_t times = copies();
        const Measured whole = timed("copy", [&] {
            for (std::size_t time = 0; time < times; ++time)
                std::memcpy(copied_.data(), gradient(time).data(), copied_.size() * sizeof(float));
        });
        return bytes * static_cast<double>(times) / whole.seconds;
    }

    /// Enough copies that the start of ranks does not matter.
    [[nodiscard]] std::size_t copies() const {
        constexpr double enough = 64.0 * (1 << 20);
        return static_cast<std::size_t>(std::ceil(enough / 8.0 / static_cast<double>(options_.size)));
    }
    /// Vectors to copy from, since a single small one would stay in a cache.
    [[nodiscard]] std::size_t copies_at_once() const { return std::min<std::size_t>(8, copies()); }

    /// A round of the row's peer. Of many inner steps it takes only the first, which reads other
    /// vectors than it writes, and a few of the others, which are alike. A few are enough that one
    /// disturbance does not count H times.
    Measured take_turn(Row& row, std::size_t turn) {
        constexpr double learning_rate = 1e-3;
        peers::LocalPeer* const local = row.peer->local();
        if (local == nullptr)
            return timed(row.kind->name, [&] {
                if (row.kind->uses_up)
                    row.peer->step_using_up(row.given, learning_rate);
                else
                    row.peer->step(gradient(turn), learning_rate);
                row.peer->finish();
            });
        Measured whole = timed(row.kind->name, [&] { local->inner_step(gradient(turn), learning_rate); });
        const Index others = row.setting.inner_steps - 1;
        const Index taken = std::min(others, Index{others_taken});
        if (taken > 0)
            whole.add(timed(row.kind->name,
                            [&] {
                                for (Index later = 1; later <= taken; ++later)
                                    local->inner_step(gradient(turn + static_cast<std::size_t>(later)),
                                                      learning_rate);
                            }),
                      static_cast<double>(others) / static_cast<double>(taken));
        whole.add(timed(row.kind->name,
                        [&] {
                            local->end_round();
                            local->finish();
                        }),
                  1);
        return whole;
    }

    /// Runs the action on all ranks. Returns the slowest rank's time, the mean of processor times
    /// and interface bytes, and the bytes of all.
    template <class Action>
    Measured timed(std::string_view name, const Action& action) {
        using Clock = std::chrono::steady_clock;
        // If a rank is a thread among others, no clock covers the threads that share its passes.
        const bool process = options_.communicator == "mpi" || bare_.all.size() == 1;
        static_cast<void>(distributed::gather_records(bare_.all, 0)); // all begin together
        all_.reset();
        each_.reset();
        const std::uint64_t kernel = kernel_bytes(options_.interface);
        const double cpu = cpu_seconds(process);
        const auto begin = Clock::now();
        {
            const problem::Span span(name, bare_.all.rank());
            action();
        }
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
    std::vector<distributed::AlignedFloats> gradients_; ///< in turns, each made anew when it has been taken
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
    app.add_option("--warm-up", options.warm_up,
                   "steps before, not timed, of each peer that selects; the others take at most " +
                       std::to_string(bench::most_warm_up_of_others))
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--threads", options.threads,
                   "that share a rank's passes; of scape's and adamw's rows, the others have one")
        ->check(CLI::Range(1, 256));
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
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    problem::add_timeline_option(app);
    app.add_option("--title", options.title, "what to say before the table");
    app.add_option("--timeout", options.timeout, "seconds until a rank that does not answer ends all")
        ->check(CLI::PositiveNumber);
    try {
        CLI11_PARSE(app, argc, argv);
        if (options.peers.empty())
            options.peers = all_peers();
        for (const std::string& text : options.peers) {
            const peers::Kind& kind = *peers::parse(text, options.size).kind;
            if (options.threads > 1 && !kind.threads)
                throw Error("--threads is " + std::to_string(options.threads) + ", and " +
                            std::string(kind.name) + " has one; leave it out of --peers");
        }
        if (options.threads > 1 && options.communicator == "threads" && options.ranks > 1)
            throw Error("--threads is of a rank alone or of one that is a process: take --ranks 1, or "
                        "--communicator mpi under mpirun");
        if (options.communicator == "threads" && options.rate > 0)
            throw Error("--rate belongs to a link, and threads have none; leave it out, or take "
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

// Times a pipeline's step over real messages, with compressed and uncompressed boundaries, which
// take turns in one run. Stages compute nothing else, so the times are the cost of boundaries.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/statistics.hpp>

#include "benchmark_out.hpp"
#include "pipeline_options.hpp"
#include "plain_ends.hpp"

namespace {

using namespace truestep;
using bench::mapl::Options;
using bench::mapl::PlainReceiver;
using bench::mapl::PlainSender;
using bench::mapl::times_of;
using distributed::Peers;
using distributed::mapl::Floats;
using distributed::mapl::Id;
using problem::mapl::Index;
using problem::mapl::Side;

float input(Index micro, std::size_t at) {
    const std::uint64_t bits = problem::mix64(static_cast<std::uint64_t>(micro) * 0x9e3779b97f4a7c15U + at);
    return static_cast<float>(static_cast<std::int64_t>(bits >> 40U) - (1 << 23)) * 0x1p-23F;
}

/// One rank's stage.
class Stage {
  public:
    Stage(const Options& options, Peers& peers) : options_(options), peers_(peers), ids_(options.tokens()) {
        for (std::size_t token = 0; token < ids_.size(); ++token)
            ids_[token] =
                static_cast<Id>(problem::mix64(token) % static_cast<std::uint64_t>(options.vocabulary));
        const std::size_t size = ids_.size() * static_cast<std::size_t>(options.width);
        if (peers.rank() == 0)
            for (Index micro = 0; micro < options.micro_batches; ++micro) {
                Floats& one = inputs_.emplace_back(size);
                for (std::size_t i = 0; i < size; ++i)
                    one[i] = input(micro, i);
            }
    }

    [[nodiscard]] bool is_first() const { return peers_.rank() == 0; }
    [[nodiscard]] bool is_last() const { return peers_.rank() + 1 == peers_.size(); }
    [[nodiscard]] const Options& options() const { return options_; }

    /// All micro-batches forward, then all back. Leaves what the last stage received in `got`.
    template <class Sender, class Receiver>
    void step(std::optional<Sender>& sender, std::optional<Receiver>& receiver, std::vector<Floats>& got) {
        std::vector<Floats> activations(is_first() ? inputs_ : std::vector<Floats>());
        const Index micro_batches = options_.micro_batches;
        // One message arrives during a computation. More would share the link with it and delay the
        // next stage.
        const auto expect = [&](auto& end, Index micro, auto... more) {
            if (end && micro < micro_batches)
                end->expect(micro, more...);
        };
        const auto tokens = static_cast<Index>(ids_.size());
        expect(receiver, 0, tokens);
        for (Index micro = 0; micro < micro_batches; ++micro) {
            expect(receiver, micro + 1, tokens);
            if (receiver)
                activations.push_back(
                    receiver->forward(micro, static_cast<Index>(ids_.size())).activations);
            if (sender)
                sender->forward(micro, std::move(activations[static_cast<std::size_t>(micro)]), ids_);
        }
        expect(sender, 0);
        for (Index micro = 0; micro < micro_batches; ++micro) {
            expect(sender, micro + 1);
            const Floats back = sender ? sender->backward(micro) : Floats();
            if (receiver)
                receiver->backward(micro, sender ? back : activations[static_cast<std::size_t>(micro)]);
        }
        if (receiver)
            receiver->end_step();
        if (sender)
            static_cast<void>(sender->end_step(1e-3));
        if (is_last())
            got = std::move(activations);
    }

  private:
    const Options& options_;
    Peers& peers_;
    std::vector<Id> ids_;
    std::vector<Floats> inputs_;
};

/// A step of one row, and a function that counts wrong values after it.
struct Runner {
    std::function<void()> step;
    std::function<std::uint64_t()> wrong;
};

Runner plain_runner(Stage& stage, Peers& peers) {
    struct Ends {
        std::optional<PlainSender> sender{};
        std::optional<PlainReceiver> receiver{};
        std::vector<Floats> got{};
    };
    const auto ends = std::make_shared<Ends>();
    if (!stage.is_last())
        ends->sender.emplace(peers, peers.rank() + 1);
    if (!stage.is_first())
        ends->receiver.emplace(peers, peers.rank() - 1, stage.options().width);
    return {[ends, &stage] { stage.step(ends->sender, ends->receiver, ends->got); },
            [ends] { // the last stage must have what the first one had
                std::uint64_t wrong = 0;
                for (std::size_t micro = 0; micro < ends->got.size(); ++micro)
                    for (std::size_t i = 0; i < ends->got[micro].size(); ++i)
                        wrong += ends->got[micro][i] == input(static_cast<Index>(micro), i) ? 0U : 1U;
                return wrong;
            }};
}

/// The settings of a boundary; the same on both sides.
problem::mapl::Settings settings_of(const Options& options, Index times, int sender) {
    problem::mapl::Settings settings;
    settings.width = options.width;
    settings.rank = options.width / times;
    settings.vocabulary = options.vocabulary;
    settings.anchors = problem::mapl::Anchors::two;
    settings.seed = static_cast<std::uint64_t>(sender) + 1;
    return settings;
}

std::uint64_t sum_of(const Floats& values) {
    std::uint64_t sum = 0;
    for (const float value : values)
        sum = problem::mix64(sum + std::bit_cast<std::uint32_t>(value));
    return sum;
}

Runner mapl_runner(Stage& stage, Peers& peers, Index times) {
    struct Ends {
        std::optional<distributed::mapl::Sender> sender{};
        std::optional<distributed::mapl::Receiver> receiver{};
        std::vector<Floats> got{};
    };
    const auto ends = std::make_shared<Ends>();
    const auto state = [&](const problem::mapl::Settings& settings, Side side) {
        const auto size = static_cast<std::size_t>(settings.vocabulary * settings.rank);
        return distributed::mapl::first_state(
            settings, side, problem::mapl::first_subspace(settings.width, settings.rank, settings.seed),
            Floats(size));
    };
    if (!stage.is_first()) {
        const problem::mapl::Settings settings = settings_of(stage.options(), times, peers.rank() - 1);
        ends->receiver.emplace(settings, state(settings, Side::receiver), peers, peers.rank() - 1);
    }
    if (!stage.is_last()) {
        const problem::mapl::Settings settings = settings_of(stage.options(), times, peers.rank());
        ends->sender.emplace(settings, state(settings, Side::sender), peers, peers.rank() + 1);
    }
    return {[ends, &stage] { stage.step(ends->sender, ends->receiver, ends->got); },
            [ends, &peers] { // both sides of a boundary must have the same A
                struct Sums {
                    std::uint64_t sender;
                    std::uint64_t receiver;
                };
                const auto all = distributed::gather_records(
                    peers, Sums{ends->sender ? sum_of(ends->sender->subspace()) : 0,
                                ends->receiver ? sum_of(ends->receiver->subspace()) : 0});
                std::uint64_t wrong = 0;
                for (std::size_t rank = 0; rank + 1 < all.size(); ++rank)
                    wrong += all[rank].sender == all[rank + 1].receiver ? 0U : 1U;
                return peers.rank() == 0 ? wrong : 0;
            }};
}

/// Bytes of a step on all boundaries, by section 23.
std::uint64_t formula(const Options& options, Index times) {
    const auto boundaries = static_cast<std::uint64_t>(options.ranks - 1);
    const auto tokens = static_cast<std::uint64_t>(options.tokens());
    const auto micro_batches = static_cast<std::uint64_t>(options.micro_batches);
    const auto D = static_cast<std::uint64_t>(options.width);
    if (times == 0)
        return boundaries * micro_batches * tokens * 8 * D;
    const std::uint64_t r = D / static_cast<std::uint64_t>(times);
    return boundaries *
           (micro_batches * tokens * (8 * r + problem::mapl::id_bytes(options.vocabulary)) + 8 * D * r);
}

std::uint64_t kernel_bytes(const std::string& interface) {
    std::uint64_t bytes = 0;
    if (!interface.empty() &&
        !(std::ifstream("/sys/class/net/" + interface + "/statistics/tx_bytes") >> bytes))
        throw Error("there is no interface " + interface + " to count on");
    return bytes;
}

struct Row {
    std::string name;
    std::uint64_t formula = 0;
    std::vector<double> seconds{};
    std::vector<std::uint64_t> counted{}; ///< of all ranks
    std::vector<std::uint64_t> kernel{};
    std::uint64_t wrong = 0;
};

class Run {
  public:
    Run(const Options& options, Peers& bare)
        : options_(options), bare_(bare), counting_(bare), stage_(options, counting_) {}

    std::vector<Row> rows() {
        std::vector<Row> rows;
        std::vector<Runner> runners;
        for (const std::string& name : options_.rows) {
            const Index times = times_of(name, options_.width);
            rows.push_back({name, formula(options_, times)});
            runners.push_back(times == 0 ? plain_runner(stage_, counting_)
                                         : mapl_runner(stage_, counting_, times));
            runners.back().step(); // not timed, since memory is new
        }
        for (int step = 0; step < options_.steps; ++step)
            for (std::size_t row = 0; row < rows.size(); ++row)
                take(runners[row], rows[row]);
        return rows;
    }

  private:
    struct Measured {
        double seconds;
        std::uint64_t counted;
        std::uint64_t kernel;
        std::uint64_t wrong;
    };

    void take(const Runner& runner, Row& row) {
        using Clock = std::chrono::steady_clock;
        static_cast<void>(distributed::gather_records(bare_, 0)); // all begin together
        counting_.reset();
        const std::uint64_t kernel = kernel_bytes(options_.interface);
        const auto begin = Clock::now();
        runner.step();
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        Measured mine{seconds.count(), 0, 0, 0};
        for (const std::uint64_t bytes : counting_.bytes())
            mine.counted += bytes;
        static_cast<void>(distributed::gather_records(bare_, 0)); // all have ended
        mine.kernel = kernel_bytes(options_.interface) - kernel;
        mine.wrong = runner.wrong();
        Measured whole{};
        for (const Measured& one : distributed::gather_records(bare_, mine)) {
            whole.seconds = std::max(whole.seconds, one.seconds);
            whole.counted += one.counted;
            whole.kernel += one.kernel;
            whole.wrong += one.wrong;
        }
        row.seconds.push_back(whole.seconds);
        row.counted.push_back(whole.counted);
        row.kernel.push_back(whole.kernel);
        row.wrong += whole.wrong;
    }

    const Options& options_;
    Peers& bare_;
    distributed::CountingPeers counting_;
    Stage stage_;
};

/// Prints the rows relative to the first. Returns false if bytes differ from the formula, or values
/// are wrong.
bool print(const Options& options, const std::vector<Row>& rows, const std::string& how) {
    std::printf(
        "%s%s%d stages, %lld micro-batches of %zu tokens, D = %lld, V = %lld, %s, %d steps each, in "
        "turns; bytes are all ranks', of one step\n",
        options.title.c_str(), options.title.empty() ? "" : ": ", options.ranks,
        static_cast<long long>(options.micro_batches), options.tokens(),
        static_cast<long long>(options.width), static_cast<long long>(options.vocabulary), how.c_str(),
        options.steps);
    std::printf("%-10s %10s %10s %8s %12s %12s %12s %8s %7s %6s\n", "boundary", "step ms", "least ms",
                "x time", "formula B", "counted B", "kernel B", "x bytes", "share", "#wrong");
    bool good = true;
    std::vector<bench::BenchmarkRow> written;
    const double first = median(rows.front().seconds);
    for (const Row& row : rows) {
        const double seconds = median(row.seconds);
        const double time = first / seconds;
        const double bytes = static_cast<double>(rows.front().formula) / static_cast<double>(row.formula);
        const std::string kernel = options.interface.empty()
                                       ? "-"
                                       : std::to_string(static_cast<std::uint64_t>(
                                             median({row.kernel.begin(), row.kernel.end()})));
        const auto unlike = std::ranges::find_if(row.counted, [&](auto b) { return b != row.formula; });
        const std::uint64_t counted = unlike == row.counted.end() ? row.formula : *unlike;
        std::printf("%-10s %10.2f %10.2f %8.2f %12llu %12llu %12s %8.2f %7.2f %6llu\n", row.name.c_str(),
                    seconds * 1e3, *std::ranges::min_element(row.seconds) * 1e3, time,
                    static_cast<unsigned long long>(row.formula), static_cast<unsigned long long>(counted),
                    kernel.c_str(), bytes, time / bytes, static_cast<unsigned long long>(row.wrong));
        // Stages compute nothing, and no clock is kept of what their threads take.
        written.push_back(
            {"pipeline/" + row.name + "/d:" + std::to_string(options.size) +
                 "/width:" + std::to_string(options.width) + "/P:" + std::to_string(options.ranks) +
                 (how == "mpi" ? "/mpi" : ""),
             row.seconds,
             seconds,
             {{"sent_bytes", static_cast<double>(counted)}, {"wrong", static_cast<double>(row.wrong)}}});
        good = good && counted == row.formula && row.wrong == 0;
    }
    bench::write_benchmark_out(options.benchmark_out, written);
    if (!good)
        std::fprintf(stderr,
                     "bench_pipeline: a row sends other bytes than its formula's, or arrives wrong\n");
    return good;
}

int run(Options options) {
    const std::chrono::seconds timeout(options.timeout);
    std::vector<Row> rows;
    if (options.communicator == "threads") {
        distributed::run_peers(
            options.ranks,
            [&](Peers& peers) {
                auto measured = Run(options, peers).rows();
                if (peers.rank() == 0)
                    rows = std::move(measured);
            },
            timeout);
        return print(options, rows, "threads") ? 0 : 1;
    }
    const auto peers = distributed::make_mpi_peers({timeout});
    options.ranks = peers->size();
    rows = Run(options, *peers).rows();
    return peers->rank() != 0 || print(options, rows, "mpi") ? 0 : 1;
}

void check(const Options& options) {
    for (const std::string& row : options.rows)
        static_cast<void>(times_of(row, options.width));
    if (options.size < options.width || options.size % options.width != 0)
        throw Error("--size is " + std::to_string(options.size) + "; it must be whole tokens of --width " +
                    std::to_string(options.width));
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Times a pipeline's step with boundaries of MAPL and without, in turns, and counts what travels.");
    app.add_option("-d,--size", options.size, "values of a micro-batch, tokens times width")
        ->check(CLI::Range(Index{1}, Index{1} << 28));
    app.add_option("--width", options.width, "D")->check(CLI::Range(Index{1}, Index{1} << 16));
    app.add_option("--micro-batches", options.micro_batches, "of a step")->check(CLI::Range(1, 1000));
    app.add_option("--vocabulary", options.vocabulary, "V")->check(CLI::Range(Index{1}, Index{1} << 20));
    app.add_option("-P,--ranks", options.ranks, "stages, as threads; under mpirun it decides")
        ->check(CLI::Range(2, 64));
    app.add_option("--peers", options.rows,
                   "what stands between stages: none, mapl:TIMES; the others are beside the first")
        ->delimiter(',');
    app.add_option("--steps", options.steps, "timed, of each")->check(CLI::PositiveNumber);
    app.add_option("--communicator", options.communicator, "threads, or mpi under mpirun")
        ->check(CLI::IsMember({"threads", "mpi"}));
    app.add_option("--interface", options.interface, "also count what this network interface sends");
    app.add_option("--title", options.title, "what to say before the table");
    app.add_option("--timeout", options.timeout, "seconds until a rank that does not answer ends all")
        ->check(CLI::PositiveNumber);
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    CLI11_PARSE(app, argc, argv);
    try {
        check(options);
        if (options.communicator == "threads")
            return run(options);
        const distributed::MpiSession session(argc, argv);
        return run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_pipeline: %s\n", error.what());
        return 2;
    }
}

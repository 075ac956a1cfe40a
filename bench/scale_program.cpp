// Compares the cost of a step, as d and P grow, with a copy of the same number of bytes; fits
// exponents in log-log, and plots them. Ranks are threads that share the machine's cores, so only
// processor time counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/statistics.hpp>

#include "benchmark_out.hpp"
#include "model/fit.hpp"
#include "model/plot.hpp"
#include "peers/links.hpp"
#include "random_gradient.hpp"

namespace {

using namespace truestep;
using peers::Communicator;
using peers::Index;

struct Options {
    std::vector<Index> sizes;
    std::vector<int> ranks{1, 2, 3, 4, 6, 8, 12, 16};
    Index ranks_size = Index{1} << 22;
    Index fit_from = Index{1} << 20;
    int rounds = 3;
    double memory_share = 0.75;
    std::string plots;
    std::string json;
    std::string benchmark_out;
};

struct Scheme {
    std::string name;
    double density; ///< 1 of what is dense
    [[nodiscard]] std::string text() const {
        char text[64];
        std::snprintf(text, sizeof text, density < 1 ? "%s %g" : "%s", name.c_str(), density);
        return text;
    }
};
const std::vector<Scheme>& schemes() {
    static const std::vector<Scheme> all{{"scape", 0.01}, {"scape", 0.1}, {"dense", 1}, {"adamw", 1}};
    return all;
}

/// One setting and its times in seconds.
struct Row {
    Scheme scheme;
    Index size;
    int ranks;
    std::vector<double> walls{}; ///< for all ranks together
    std::vector<double> cpus{};  ///< processor time of a rank
    std::vector<double>
        copies{}; ///< processor time of a rank for the step's least bytes; in turns with the steps

    [[nodiscard]] double wall() const { return median(walls); }
    [[nodiscard]] double cpu() const { return median(cpus); }
    [[nodiscard]] double copy() const { return median(copies); }
};

/// Bytes of full-length vectors that a rank has to move. SCAPE reads g twice (nothing may change
/// before all have been checked), reads and writes e and w, and reads its shard for the selection.
/// Dense schemes bring the gradients to their owners, who fold them, read and write their shards,
/// and bring the parameters back. They check their gradients, and AdamW has a second moment. A single
/// rank need not send anything.
double least_bytes(const Scheme& scheme, Index size, int ranks) {
    const auto d = static_cast<double>(size);
    const double share = 1.0 / ranks;
    if (scheme.name == "scape")
        return (24 + 4 * share) * d;
    const double brought = ranks == 1 ? 4 : 12 + 8 * (1 - share);
    return (4 + brought + (scheme.name == "adamw" ? 24 : 16) * share) * d;
}

/// Processor time of this thread; it stops while another program has the core.
double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// One rank's part. Rank 0 fills the row.
void measure(Row& row, int steps, const peers::Links& links) {
    Communicator& communicator = links.all;
    const auto d = static_cast<std::size_t>(row.size);
    // A copy that touches as much memory as a step: 12 bytes a parameter.
    const std::vector<float> from(d + d / 2, 1.0F);
    std::vector<float> to(from.size());
    const double least =
        least_bytes(row.scheme, row.size, row.ranks) / (8.0 * static_cast<double>(from.size()));
    const auto peer = peers::make_peer(row.scheme.name, {row.size, row.scheme.density, {}}, links,
                                       std::vector<float>(d, 1.0F));
    std::vector<float> gradient(d);
    struct Measured {
        double wall, cpu, copy;
    };
    constexpr int warm_up = 2;
    for (int step = 1; step <= warm_up + steps; ++step) {
        bench::fill_with_random(gradient, communicator.rank(), step);
        static_cast<void>(distributed::gather_records(communicator, step)); // all begin together
        const auto begin = std::chrono::steady_clock::now();
        const double cpu_begin = cpu_seconds();
        peer->step(gradient, 1e-3);
        peer->finish();
        const double cpu_end = cpu_seconds();
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
        static_cast<void>(distributed::gather_records(communicator, step));
        const double copy_begin = cpu_seconds();
        std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
        const double copy_end = cpu_seconds();
        const auto all = distributed::gather_records(
            communicator, Measured{seconds.count(), cpu_end - cpu_begin, copy_end - copy_begin});
        if (step <= warm_up || communicator.rank() != 0)
            continue;
        Measured whole{0, 0, 0};
        for (const Measured& of_rank : all) {
            whole.wall = std::max(whole.wall, of_rank.wall);
            whole.cpu += of_rank.cpu / row.ranks;
            whole.copy += of_rank.copy / row.ranks;
        }
        row.walls.push_back(whole.wall);
        row.cpus.push_back(whole.cpu);
        row.copies.push_back(whole.copy * least);
    }
}

double available_bytes() {
    std::ifstream file("/proc/meminfo");
    for (std::string word; file >> word;)
        if (word == "MemAvailable:") {
            double kibibytes = 0;
            file >> kibibytes;
            return 1024 * kibibytes;
        }
    return 0;
}

/// Whether the row's setting fits into memory; prints a line if not.
bool fits(const Options& options, const Row& row) {
    // The gradient, the copy's buffers, the optimizer and its inputs.
    const double bytes = 36.0 * static_cast<double>(row.size) * row.ranks;
    const double room = options.memory_share * available_bytes();
    if (bytes <= room)
        return true;
    std::printf("%-11s %10lld %3d SKIPPED: takes about %.1f GiB; %.1f are available\n",
                row.scheme.text().c_str(), static_cast<long long>(row.size), row.ranks, bytes / 0x1p30,
                room / 0x1p30);
    return false;
}

/// Adds a round's steps to each row, so that disturbances affect all rows.
void measure_round(const Options& options, std::vector<Row>& rows) {
    constexpr Index work = Index{1} << 28;
    for (Row& row : rows) {
        const Index steps = work / row.size / row.ranks / options.rounds;
        peers::run_linked(
            row.ranks,
            [&](const peers::Links& links) {
                measure(row, static_cast<int>(std::clamp<Index>(steps, 3, 51)), links);
            },
            std::chrono::minutes(10));
    }
}

void print(const std::vector<Row>& rows) {
    std::printf("%-11s %10s %3s %5s %10s %10s %8s %8s %10s %7s\n", "peer", "d", "P", "steps", "step ms",
                "cpu ms", "spread", "cpu ns/d", "copy ms", "x copy");
    for (const Row& row : rows)
        std::printf("%-11s %10lld %3d %5zu %10.3f %10.3f %7.1f%% %8.3f %10.3f %7.2f\n",
                    row.scheme.text().c_str(), static_cast<long long>(row.size), row.ranks, row.cpus.size(),
                    row.wall() * 1e3, row.cpu() * 1e3, spread(row.cpus) * 100,
                    row.cpu() * 1e9 / static_cast<double>(row.size), row.copy() * 1e3,
                    row.cpu() / row.copy());
}

/// Rows of one scheme, as a curve of (x, y).
template <class X, class Y>
model::Curve curve_of(const std::vector<Row>& rows, const Scheme& scheme, const X& x, const Y& y) {
    model::Curve curve{scheme.text(), {}, {}, true};
    for (const Row& row : rows)
        if (row.scheme.text() == scheme.text()) {
            curve.x.push_back(x(row));
            curve.y.push_back(y(row));
        }
    return curve;
}

/// Fits y = factor x^exponent for x from `from` on, and prints it.
std::optional<model::PowerFit> fit_and_tell(const model::Curve& points, const std::string& what,
                                            double from) {
    const auto fit = model::fit_power(points, from);
    if (!fit)
        return std::nullopt;
    std::printf("%-33s %-11s from %10g to %10g: exponent %6.3f, residuals %4.1f %% (largest %.1f %%)\n",
                what.c_str(), points.name.c_str(), fit->from, fit->to, fit->exponent, fit->residual * 100,
                fit->largest * 100);
    return fit;
}

/// The points, and the fit as a line of their colour.
void draw(model::Plot& plot, model::Curve points, const std::optional<model::PowerFit>& fit,
          const std::string& letter) {
    if (points.x.empty())
        return;
    if (fit) {
        char exponent[32];
        std::snprintf(exponent, sizeof exponent, ": %s^%.2f", letter.c_str(), fit->exponent);
        points.name += exponent;
    }
    plot.curves.push_back(points);
    if (fit)
        plot.curves.push_back({"", {fit->from, fit->to}, {fit->at(fit->from), fit->at(fit->to)}});
}

void write(const std::filesystem::path& path, const std::string& text) {
    if (!(std::ofstream(path) << text))
        throw Error("cannot write " + path.string());
}

double size_of(const Row& row) {
    return static_cast<double>(row.size);
}
double ranks_of(const Row& row) {
    return row.ranks;
}
double cpu_of(const Row& row) {
    return row.cpu();
}

void report(const Options& options, const std::vector<Row>& by_size, const std::vector<Row>& by_ranks) {
    std::printf("\nfitted, least squares in log-log\n");
    model::Plot in_d{"Processor time of one step, P = 1", "parameters", "seconds", {}};
    model::Plot in_p{"Processor time of a rank's step, d = " + std::to_string(options.ranks_size),
                     "ranks (threads on shared cores)",
                     "seconds",
                     {}};
    for (const Scheme& scheme : schemes()) {
        const auto d_points = curve_of(by_size, scheme, size_of, cpu_of);
        static_cast<void>(fit_and_tell(d_points, "processor time in d", 1));
        const auto d_fit =
            fit_and_tell(d_points, "processor time in d", static_cast<double>(options.fit_from));
        const auto p_points = curve_of(by_ranks, scheme, ranks_of, cpu_of);
        const auto p_fit = fit_and_tell(p_points, "processor time of a rank in P", 1);
        static_cast<void>(
            fit_and_tell(curve_of(by_ranks, scheme, ranks_of, [](const Row& row) { return row.wall(); }),
                         "time of all ranks together in P", 2));
        draw(in_d, d_points, d_fit, "d");
        draw(in_p, p_points, p_fit, "P");
    }
    model::Curve copy =
        curve_of(by_size, schemes().front(), size_of, [](const Row& row) { return row.copy(); });
    copy.name = "copy";
    static_cast<void>(fit_and_tell(copy, "copying scape's least bytes, in d", 1));
    static_cast<void>(
        fit_and_tell(copy, "copying scape's least bytes, in d", static_cast<double>(options.fit_from)));
    copy.name = "copy of scape's bytes";
    copy.points = false;
    if (!copy.x.empty())
        in_d.curves.push_back(copy);
    if (options.plots.empty())
        return;
    std::filesystem::create_directories(options.plots);
    const std::filesystem::path folder = options.plots;
    if (!in_d.curves.empty())
        write(folder / "scale-in-d.svg", in_d.svg());
    if (!in_p.curves.empty())
        write(folder / "scale-in-ranks.svg", in_p.svg());
}

void write_json(const Options& options, const std::vector<Row>& rows) {
    nlohmann::json json;
    for (const Row& row : rows)
        json["rows"].push_back({{"peer", row.scheme.name},
                                {"density", row.scheme.density},
                                {"d", row.size},
                                {"ranks", row.ranks},
                                {"steps", row.cpus.size()},
                                {"median_seconds", row.wall()},
                                {"cpu_seconds", row.cpu()},
                                {"spread", spread(row.cpus)},
                                {"copy_seconds", row.copy()}});
    write(options.json, json.dump(1) + "\n");
}

std::vector<bench::BenchmarkRow> benchmark_rows(const std::vector<Row>& rows) {
    std::vector<bench::BenchmarkRow> result;
    for (const Row& row : rows) {
        std::string name = "scale/" + row.scheme.text();
        std::ranges::replace(name, ' ', ':');
        name += "/d:" + std::to_string(row.size) + "/P:" + std::to_string(row.ranks);
        // At P = 1 one size is in both tables.
        if (std::ranges::find(result, name, &bench::BenchmarkRow::name) == result.end())
            result.push_back({name, row.walls, row.cpu(), {{"copy_seconds", row.copy()}}});
    }
    return result;
}

void run(const Options& options) {
    std::vector<Row> by_size;
    std::vector<Row> by_ranks;
    const auto add = [&](std::vector<Row>& rows, const Scheme& scheme, Index size, int ranks) {
        if (const Row row{scheme, size, ranks}; fits(options, row))
            rows.push_back(row);
    };
    for (const Index size : options.sizes)
        for (const Scheme& scheme : schemes())
            add(by_size, scheme, size, 1);
    for (const int ranks : options.ranks)
        for (const Scheme& scheme : schemes())
            add(by_ranks, scheme, options.ranks_size, ranks);
    for (int round = 0; round < options.rounds; ++round) {
        measure_round(options, by_size);
        measure_round(options, by_ranks);
    }
    print(by_size);
    std::printf("\n");
    print(by_ranks);
    report(options, by_size, by_ranks);
    by_size.insert(by_size.end(), by_ranks.begin(), by_ranks.end());
    if (!options.json.empty())
        write_json(options, by_size);
    bench::write_benchmark_out(options.benchmark_out, benchmark_rows(by_size));
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    for (int power = 16; power <= 28; power += 2)
        options.sizes.push_back(Index{1} << power);
    CLI::App app("The cost of a step in d at P = 1, and in P at one d, with fitted exponents.");
    app.add_option("--sizes", options.sizes, "parameters, at P = 1")
        ->delimiter(',')
        ->check(CLI::Range(Index{1}, Index{1} << 31));
    app.add_option("--ranks", options.ranks, "threads")->delimiter(',')->check(CLI::Range(1, 256));
    app.add_option("--ranks-size", options.ranks_size, "parameters of the rows in P")
        ->check(CLI::Range(Index{1}, Index{1} << 31));
    app.add_option("--rounds", options.rounds, "turns of all rows")->check(CLI::PositiveNumber);
    app.add_option("--fit-from", options.fit_from, "least d of the second fit");
    app.add_option("--memory-share", options.memory_share, "of the free memory that may be used")
        ->check(CLI::Range(0.01, 1.0));
    app.add_option("--plots", options.plots, "write the plots to this folder");
    app.add_option("--json", options.json, "also write the figures to this file");
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_scale: %s\n", error.what());
        return 2;
    }
}

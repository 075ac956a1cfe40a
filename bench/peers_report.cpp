// Prints bench_peers' rows as a table and JSON, and reports rows with wrong bits or byte counts.
#include "peers_report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/statistics.hpp>

#include "benchmark_out.hpp"

namespace truestep::bench {
namespace {

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// "0.01", "H=30" or "-".
std::string number_text(const Row& row) {
    char text[32] = "-";
    if (row.kind->number == peers::Number::density)
        std::snprintf(text, sizeof text, "%g", row.setting.density);
    if (row.kind->number == peers::Number::inner_steps)
        std::snprintf(text, sizeof text, "H=%g", row.inner_steps());
    return text;
}

/// A row, and figures derived from it.
struct ReportRow {
    const Row& row;
    double seconds;
    double formula;
    peers::LeastBytes least;
    peers::Limit limit;

    ReportRow(const Row& measured, const Options& options, double copy)
        : row(measured), seconds(median(row.seconds)),
          formula(row.formula / row.inner_steps() / options.ranks),
          least(peers::least_bytes(row.kind->name, row.setting, options.ranks)),
          limit(peers::limit_of(least, options.rate / 8, copy)) {}

    [[nodiscard]] double least_seconds() const {
        return *std::min_element(row.seconds.begin(), row.seconds.end());
    }
    [[nodiscard]] double x_larger() const { return seconds / limit.larger(); }
    [[nodiscard]] double x_sum() const { return seconds / limit.sum(); }
};

void print_table(const Options& options, const std::vector<ReportRow>& rows, double copy, double dense) {
    std::printf("%s%sd = %lld, P = %d, %s, %d steps each, in turns; bytes are a rank's, of one step\n",
                options.title.c_str(), options.title.empty() ? "" : ": ",
                static_cast<long long>(options.size), options.ranks, options.communicator.c_str(),
                options.steps);
    std::printf(
        "gradients are new at each; %d steps before of those that select, %d of the others; %d thread%s "
        "a rank\n",
        options.warm_up, std::min(options.warm_up, most_warm_up_of_others), options.threads,
        options.threads == 1 ? "" : "s");
    std::printf("limit: a rank's least bytes at %.2f GB/s, as it copies while all do,", copy * 1e-9);
    if (options.rate > 0)
        std::printf(" and at the link's %g Mbit/s\n", options.rate * 1e-6);
    else
        std::printf(" and no link\n");
    std::printf("%-15s %7s %9s %9s %7s %8s %8s %7s %8s %12s %12s %12s %8s %6s\n", "peer", "number",
                "step ms", "least ms", "spread", "x dense", "x limit", "x sum", "cpu ms", "formula B",
                "counted B", "kernel B", "B/param", "#wrong");
    for (const ReportRow& told : rows) {
        const double counted = mean(told.row.counted);
        char on_wire[24] = "-";
        if (!options.interface.empty())
            std::snprintf(on_wire, sizeof on_wire, "%.0f", mean(told.row.kernel));
        std::printf(
            "%-15s %7s %9.2f %9.2f %6.1f%% %8.2f %8.2f %7.2f %8.2f %12.0f %12.0f %12s %8.4f %6lld\n",
            std::string(told.row.kind->name).c_str(), number_text(told.row).c_str(), told.seconds * 1e3,
            told.least_seconds() * 1e3, spread(told.row.seconds) * 100, dense / told.seconds,
            told.x_larger(), told.x_sum(), median(told.row.cpu) * 1e3, told.formula, counted, on_wire,
            counted / static_cast<double>(options.size), static_cast<long long>(told.row.wrong));
    }
    if (std::any_of(rows.begin(), rows.end(),
                    [](const ReportRow& told) { return told.row.inner_steps() > 1; }))
        std::printf("H=...: a step is 1/H of a round, put together from its first inner step, H-1 times "
                    "the mean of up to four others,\nand its exchange, each of the three timed from a "
                    "common start\n");
}

nlohmann::json json_of(const Options& options, const std::vector<ReportRow>& rows, double copy,
                       double dense) {
    nlohmann::json json{{"d", options.size},
                        {"ranks", options.ranks},
                        {"communicator", options.communicator},
                        {"title", options.title},
                        {"steps", options.steps},
                        {"warm_up", options.warm_up},
                        {"threads", options.threads},
                        {"rate_bits_per_second", options.rate},
                        {"delay_seconds", options.delay},
                        {"copy_bytes_per_second", copy}};
    for (const ReportRow& told : rows) {
        const Row& row = told.row;
        const bool sparse = row.kind->number == peers::Number::density;
        json["rows"].push_back({{"peer", row.kind->name},
                                {"density", sparse ? row.setting.density : 1.0},
                                {"inner_steps", row.inner_steps()},
                                {"seconds", row.seconds},
                                {"median_seconds", told.seconds},
                                {"least_seconds", told.least_seconds()},
                                {"spread", spread(row.seconds)},
                                {"cpu_seconds", median(row.cpu)},
                                {"cpu_seconds_each", row.cpu},
                                {"speed_up_over_dense", dense / told.seconds},
                                {"least_wire_bytes", told.least.wire},
                                {"least_memory_bytes", told.least.memory},
                                {"wire_limit_seconds", told.limit.wire},
                                {"memory_limit_seconds", told.limit.memory},
                                {"x_limit", told.x_larger()},
                                {"x_sum", told.x_sum()},
                                {"formula_bytes", told.formula},
                                {"counted_bytes", mean(row.counted)},
                                {"interface_bytes", mean(row.kernel)},
                                {"wrong", row.wrong}});
    }
    return json;
}

std::string benchmark_name(const Options& options, const Row& row) {
    std::string name = "peers/" + std::string(row.kind->name);
    const auto add = [&name](const char* key, double value) {
        char text[48];
        std::snprintf(text, sizeof text, "%s%.9g", key, value);
        name += text;
    };
    if (row.kind->number == peers::Number::density)
        add(":", row.setting.density);
    if (row.kind->number == peers::Number::inner_steps)
        add(":", row.inner_steps());
    add("/d:", static_cast<double>(options.size));
    add("/P:", options.ranks);
    if (options.threads > 1)
        add("/threads_of_a_rank:", options.threads);
    if (options.communicator != "threads")
        name += "/" + options.communicator;
    if (options.rate > 0)
        add("/Mbit:", options.rate * 1e-6);
    if (options.delay > 0)
        add("/delay_us:", options.delay * 1e6);
    return name;
}

std::vector<BenchmarkRow> benchmark_rows(const Options& options, const std::vector<ReportRow>& rows,
                                         double dense) {
    std::vector<BenchmarkRow> result;
    for (const ReportRow& told : rows) {
        std::map<std::string, double> counters{
            {"share_of_limit", 1 / told.x_larger()},
            {"speed_up_over_dense", dense / told.seconds},
            {"sent_B/param", mean(told.row.counted) / static_cast<double>(options.size)},
            {"wrong", static_cast<double>(told.row.wrong)}};
        result.push_back({benchmark_name(options, told.row), told.row.seconds, median(told.row.cpu),
                          std::move(counters)});
    }
    return result;
}

} // namespace

void print(const Options& options, const Figures& figures) {
    const double copy = median(figures.copies);
    std::vector<ReportRow> rows;
    double dense = 0;
    for (const Row& row : figures.rows) {
        rows.emplace_back(row, options, copy);
        if (row.kind->name == "dense")
            dense = rows.back().seconds;
    }
    print_table(options, rows, copy, dense);
    if (!options.json.empty() &&
        !(std::ofstream(options.json) << json_of(options, rows, copy, dense).dump(1) << '\n'))
        throw Error("cannot write " + options.json);
    write_benchmark_out(options.benchmark_out, benchmark_rows(options, rows, dense));
}

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

} // namespace truestep::bench

// Prints what bench_gpu measured as a table and JSON, and judges each goal by it.
#include "gpu/figures.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include <truestep/problem/error.hpp>
#include <truestep/report/table.hpp>

namespace truestep::gpu::bench {

namespace {

std::string fixed(double value, int decimals, const char* behind = "") {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f%s", decimals, value, behind);
    return text;
}

std::string shortest(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

std::string size_text(Index d) {
    const auto bits = static_cast<std::uint64_t>(d);
    return std::has_single_bit(bits) ? "2^" + std::to_string(std::countr_zero(bits)) : std::to_string(d);
}

std::string density_text(double density) {
    return density == 0.0 ? "-" : shortest(density);
}

std::string held_text(const Row& row) {
    return row.guesses
               ? std::to_string(row.guesses->held) + " of " + std::to_string(row.guesses->looked_for)
               : "-";
}

const Row* largest(const Report& report, std::string_view name, double density) {
    const Row* found = nullptr;
    for (const Row& row : report.rows)
        if (row.name == name && row.density == density && (found == nullptr || row.d > found->d))
            found = &row;
    return found;
}

std::vector<double> densities(const Report& report) {
    std::vector<double> all;
    for (const Row& row : report.rows)
        if (row.density != 0.0 && std::ranges::find(all, row.density) == all.end())
            all.push_back(row.density);
    return all;
}

/// A goal on the largest row with this name; `measure` computes a number from the row.
template <class Measure>
Goal goal_on(const Report& report, std::string_view name, double density, const std::string& what,
             double limit, bool at_least, const Measure& measure) {
    Goal goal{what + (density == 0.0 ? "" : ", density " + density_text(density)), limit, at_least, {}, {}};
    const Row* row = largest(report, name, density);
    if (row == nullptr) {
        goal.note = report.skipped.empty() ? "no such row" : report.skipped;
        return goal;
    }
    goal.text += ", d = " + size_text(row->d);
    if (row->d < least_size_of_goals)
        goal.note = "d is below " + size_text(least_size_of_goals);
    else
        goal.measured = measure(*row);
    return goal;
}

Goal launch_goal(const Report& report) {
    constexpr double limit = 60.0;
    Goal goal{"launch overhead of a step with a graph, us, d = " + size_text(size_of_launches),
              limit,
              false,
              {},
              report.skipped.empty() ? "no step with a graph was timed" : report.skipped};
    for (const Launch& launch : report.launches)
        if (launch.graph && launch.d == size_of_launches)
            goal.measured = launch.overhead() * 1e6;
    return goal;
}

} // namespace

std::string_view name(Verdict verdict) {
    switch (verdict) {
    case Verdict::met:
        return "MET";
    case Verdict::missed:
        return "MISSED";
    case Verdict::not_measured:
        break;
    }
    return "NOT MEASURED";
}

Verdict Goal::verdict() const {
    if (!measured)
        return Verdict::not_measured;
    const bool met = at_least ? *measured >= limit : *measured <= limit; // a NaN never meets a goal
    return met ? Verdict::met : Verdict::missed;
}

bool Report::wrong() const {
    return std::ranges::any_of(rows, [](const Row& row) { return row.wrong.value_or(0) != 0; });
}

std::vector<Goal> goals_of(const Report& report) {
    std::vector<double> all = densities(report);
    if (all.empty())
        all = {0.1, 0.01};
    std::vector<Goal> goals;
    goals.reserve(3 * all.size() + 1);
    for (const double density : all)
        goals.push_back(goal_on(report, local_pass_row, density, "local pass, % of the copy", 90.0, true,
                                [](const Row& row) { return 100.0 * row.share_of_copy(); }));
    for (const double density : all)
        goals.push_back(goal_on(report, step_row, density,
                                "whole local step, times the time of its least bytes", 1.15, false,
                                [](const Row& row) { return row.times_least(); }));
    for (const double density : all)
        goals.push_back(
            goal_on(report, selection_row, density, "selection of a shard, times one read of it", 1.5,
                    false, [&](const Row& row) {
                        for (const Row& read : report.rows)
                            if (read.name == read_row && read.d == row.d && read.density == row.density)
                                return median(row.seconds) / median(read.seconds);
                        return std::nan("");
                    }));
    goals.push_back(launch_goal(report));
    return goals;
}

void add_torch(Report& report, const nlohmann::json& torch) {
    try {
        if (const std::string skipped = torch.value("skipped", ""); !skipped.empty()) {
            report.notes.push_back("PyTorch's AdamW: SKIPPED, " + skipped);
            return;
        }
        for (const auto& given : torch.at("rows"))
            report.rows.push_back({given.at("name").get<std::string>(),
                                   given.at("d").get<Index>(),
                                   0.0,
                                   given.at("bytes").get<double>(),
                                   given.at("seconds").get<std::vector<double>>(),
                                   given.at("copy_bytes_per_second").get<double>(),
                                   {}});
        report.environment.emplace_back("PyTorch", torch.at("torch").get<std::string>());
    } catch (const nlohmann::json::exception& error) {
        throw Error(std::string("the file of PyTorch's figures was not written by torch_adamw.py: ") +
                    error.what());
    }
}

std::string text(const Report& report) {
    std::string result;
    if (!report.environment.empty()) {
        report::Table environment({{"environment"}, {""}});
        for (const auto& [key, value] : report.environment)
            environment.add({key, value});
        result += environment.text() + "\n";
    }
    if (!report.rows.empty()) {
        report::Table rows({{"what"},
                            {"d", true},
                            {"density", true},
                            {"median us", true},
                            {"spread", true},
                            {"bytes/param", true},
                            {"GB/s", true},
                            {"% of copy", true},
                            {"samples", true},
                            {"bracket held", true},
                            {"#wrong", true}});
        for (const Row& row : report.rows) {
            const bool counted = row.bytes > 0.0;
            rows.add({row.name, size_text(row.d), density_text(row.density),
                      fixed(median(row.seconds) * 1e6, 1), fixed(spread(row.seconds) * 100.0, 1, "%"),
                      counted ? fixed(row.bytes / static_cast<double>(row.d), 3) : "-",
                      counted ? fixed(row.rate() * 1e-9, 0) : "-",
                      counted ? fixed(row.share_of_copy() * 100.0, 1) : "-",
                      std::to_string(row.seconds.size()), held_text(row),
                      row.wrong ? std::to_string(*row.wrong) : "-"});
        }
        result += rows.text() + "\n";
    }
    if (!report.launches.empty()) {
        report::Table launches({{"a step by the host's clock, verdict and all"},
                                {"d", true},
                                {"graph"},
                                {"median us", true},
                                {"least bytes us", true},
                                {"overhead us", true},
                                {"samples", true}});
        for (const Launch& launch : report.launches)
            launches.add({"", size_text(launch.d), launch.graph ? "yes" : "no",
                          fixed(median(launch.seconds) * 1e6, 1), fixed(launch.least * 1e6, 1),
                          fixed(launch.overhead() * 1e6, 1), std::to_string(launch.seconds.size())});
        result += launches.text() + "\n";
    }
    for (const std::string& note : report.notes)
        result += note + "\n";
    report::Table goals({{"goal"}, {"limit", true}, {"measured", true}, {"verdict"}});
    for (const Goal& goal : goals_of(report))
        goals.add({goal.text, (goal.at_least ? ">= " : "<= ") + shortest(goal.limit),
                   goal.measured ? fixed(*goal.measured, 2) : "-",
                   std::string(name(goal.verdict())) + (goal.measured ? "" : ": " + goal.note)});
    result += goals.text();
    if (!report.skipped.empty())
        result += "SKIPPED: " + report.skipped + "\n";
    return result;
}

nlohmann::json json(const Report& report) {
    nlohmann::json result{{"format", "scape-gpu-bench 1"},
                          {"status", !report.skipped.empty() ? "SKIPPED"
                                     : report.wrong()        ? "FAILED"
                                                             : "PASSED"},
                          {"reason", report.skipped},
                          {"environment", nlohmann::json::object()},
                          {"rows", nlohmann::json::array()},
                          {"launches", nlohmann::json::array()},
                          {"notes", report.notes},
                          {"goals", nlohmann::json::array()}};
    for (const auto& [key, value] : report.environment)
        result["environment"][key] = value;
    for (const Row& row : report.rows)
        result["rows"].push_back(
            {{"name", row.name},
             {"d", row.d},
             {"density", row.density},
             {"bytes", row.bytes},
             {"median_seconds", median(row.seconds)},
             {"least_seconds", *std::ranges::min_element(row.seconds)},
             {"spread", spread(row.seconds)},
             {"samples", row.seconds.size()},
             {"bytes_per_second", row.rate()},
             {"copy_bytes_per_second", row.copy},
             {"share_of_copy", row.share_of_copy()},
             {"selections", row.guesses ? nlohmann::json(row.guesses->looked_for) : nlohmann::json()},
             {"bracket_held", row.guesses ? nlohmann::json(row.guesses->held) : nlohmann::json()},
             {"wrong", row.wrong ? nlohmann::json(*row.wrong) : nlohmann::json()}});
    for (const Launch& launch : report.launches)
        result["launches"].push_back({{"d", launch.d},
                                      {"graph", launch.graph},
                                      {"median_seconds", median(launch.seconds)},
                                      {"least_bytes_seconds", launch.least},
                                      {"overhead_seconds", launch.overhead()},
                                      {"samples", launch.seconds.size()}});
    for (const Goal& goal : goals_of(report))
        result["goals"].push_back(
            {{"goal", goal.text},
             {"limit", goal.limit},
             {"at_least", goal.at_least},
             {"measured", goal.measured ? nlohmann::json(*goal.measured) : nlohmann::json()},
             {"verdict", name(goal.verdict())},
             {"note", goal.measured ? "" : goal.note}});
    return result;
}

} // namespace truestep::gpu::bench

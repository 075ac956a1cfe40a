// Judges searches, keeps the time budget, and writes the results of `check` as text and JSON.
#include <truestep/gate/results.hpp>

#include <cstdio>
#include <utility>

#include <truestep/gate/processes.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/table.hpp>

#include "interruption.hpp"

namespace truestep::gate {

namespace {

using nlohmann::ordered_json;
using report::Status;

std::string seconds_text(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", seconds);
    return text;
}

std::string number(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : report::ulps_text(value.get<double>());
}

std::string with_reason(const ordered_json& row) {
    const std::string reason = row["reason"];
    return row["status"].get<std::string>() + (reason.empty() ? "" : ": " + reason);
}

/// A setting as the table shows it: the shortest text that reads back as the same number.
std::string setting_text(const ordered_json& value) {
    return value.is_string()           ? value.get<std::string>()
           : value.is_number_integer() ? std::to_string(value.get<std::int64_t>())
                                       : shortest(value.get<double>());
}

std::string rows_text(const std::vector<std::string>& settings, const ordered_json& rows) {
    std::vector<report::Table::Column> columns{{"implementation"}, {"communicator"}};
    for (const std::string& setting : settings)
        columns.push_back({setting, rows.front()[setting].is_number()});
    for (const report::Table::Column& column :
         std::initializer_list<report::Table::Column>{{"level"},
                                                      {"cases", true},
                                                      {"values", true},
                                                      {"#wrong", true},
                                                      {"max ULP", true},
                                                      {"% of limit", true},
                                                      {"seconds", true},
                                                      {"status"}})
        columns.push_back(column);
    report::Table table(columns);
    for (const auto& row : rows) {
        std::vector<std::string> cells{row["implementation"], row["communicator"]};
        for (const std::string& setting : settings)
            cells.push_back(setting_text(row[setting]));
        for (std::string cell : {row["level"].get<std::string>(), std::to_string(row["cases"].get<int>()),
                                 std::to_string(row["compared"].get<std::int64_t>()),
                                 std::to_string(row["wrong"].get<std::int64_t>()), number(row["max_ulp"]),
                                 report::percent_of_limit(row["share_of_limit"].get<double>(),
                                                          row["wrong"].get<std::int64_t>() > 0),
                                 seconds_text(row["seconds"].get<double>()), with_reason(row)})
            cells.push_back(std::move(cell));
        table.add(std::move(cells));
    }
    return table.text();
}

std::string properties_text(const ordered_json& rows) {
    report::Table table({{"implementation"},
                         {"communicator"},
                         {"number", true},
                         {"property"},
                         {"cases", true},
                         {"seconds", true},
                         {"status"},
                         {"cases were of"}});
    for (const auto& row : rows) {
        std::string kinds;
        const int cases = row["cases"].get<int>();
        for (const auto& [kind, count] : row["classes"].items())
            kinds += (kinds.empty() ? "" : ", ") + kind + " " +
                     std::to_string(count.get<int>() * 100 / std::max(1, cases)) + " %";
        const std::string reason = row["reason"];
        table.add({row["implementation"], row["communicator"],
                   row["number"].get<int>() == 0 ? "-" : std::to_string(row["number"].get<int>()),
                   row["property"], std::to_string(cases), seconds_text(row["seconds"].get<double>()),
                   row["status"], reason.empty() ? kinds : reason});
    }
    return table.text();
}

std::string planted_text(const ordered_json& rows) {
    report::Table table({{"bug", true},
                         {"name"},
                         {"caught by"},
                         {"cases", true},
                         {"parameters", true},
                         {"ranks", true},
                         {"steps", true},
                         {"seconds", true},
                         {"also caught by"}});
    for (const auto& row : rows) {
        std::string also;
        for (const auto& name : row["also"])
            also += (also.empty() ? "" : ", ") + name.get<std::string>();
        const bool caught = row["caught"];
        table.add({std::to_string(row["number"].get<int>()), row["name"],
                   caught ? row["property"].get<std::string>() : "ESCAPED",
                   std::to_string(row["cases"].get<int>()),
                   caught ? std::to_string(row["elements"].get<std::int64_t>()) : "-",
                   caught ? std::to_string(row["ranks"].get<int>()) : "-",
                   caught ? std::to_string(row["steps"].get<std::int64_t>()) : "-",
                   seconds_text(row["seconds"].get<double>()), also});
    }
    return table.text();
}

} // namespace

Watch::Watch(double seconds, std::function<bool(bool)> any) : limit_(seconds), any_(std::move(any)) {}

bool Watch::goes_on(const std::string& command, const std::string& line) {
    now_running(command, line);
    // Ranks that are processes do not note interruptions, which would make them part ways.
    if (interruption() != 0)
        return false;
    return limit_ <= 0.0 || !any_(seconds() > limit_);
}

double Watch::seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
}

Verdict judge(const System& system, const Property& property, const SearchResult& result,
              const SearchOptions& options) {
    if (result.counterexample)
        return {Status::failed, ""};
    if (result.cases == 0)
        return {Status::skipped, result.interrupted ? "interrupted" : "the time budget was used up before"};
    const int asked = result.drawn > 0 ? result.drawn : result.cases; // a single given case is not drawn
    for (const auto& [kind, count] : result.kinds)
        if (kind.starts_with(nothing_said) && count == asked)
            return {Status::skipped, kind.substr(nothing_said.size())};
    if (const std::string few = too_few(system, property, result, options); !few.empty())
        return {Status::mistrusted, few};
    if (result.ended)
        return {Status::passed,
                (result.interrupted ? "interrupted after " : "the time budget ended it after ") +
                    std::to_string(result.cases) + " of " + std::to_string(options.cases) + " cases"};
    return {Status::passed, ""};
}

int Results::count(Status status) const {
    int sum = 0;
    for (const auto* list : {&rows_, &properties_})
        for (const auto& row : *list)
            sum += row["status"] == name(status) ? 1 : 0;
    return sum;
}

std::string Results::text() const {
    std::string text;
    for (const std::string& table : {rows_.empty() ? "" : rows_text(system_.settings, rows_),
                                     properties_.empty() ? "" : properties_text(properties_),
                                     planted_.empty() ? "" : planted_text(planted_), failures_})
        if (!table.empty())
            text += (text.empty() ? "" : "\n") + table;
    return text;
}

ordered_json Results::document(const std::vector<std::string>& arguments, std::uint64_t seed,
                               double seconds) const {
    ordered_json environment = report::json_environment();
    environment.update(runs_on_);
    return {{"format", "scape-results"},
            {"version", 2},
            {"system", system_.name},
            {"settings", system_.settings},
            {"command", arguments},
            {"environment", environment},
            {"seed", seed},
            {"seconds", seconds},
            {"rows", rows_},
            {"properties", properties_},
            {"planted", planted_},
            {"totals",
             {{"passed", count(Status::passed)},
              {"failed", count(Status::failed)},
              {"skipped", count(Status::skipped)},
              {"mistrusted", count(Status::mistrusted)},
              {"untested", count(Status::untested)}}}};
}

std::string shell_word(const std::string& text) {
    const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos)
        return text;
    std::string word = "'";
    for (const char letter : text)
        word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return word + "'";
}

} // namespace truestep::gate

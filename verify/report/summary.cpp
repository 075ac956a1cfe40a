// Writes results as a job summary in Markdown, and on GitHub marks each failure with an annotation.
#include <truestep/report/summary.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "page_rows.hpp"

namespace truestep::report {

namespace {

using namespace page; // the words are those of the page

struct SummaryRow {
    std::string run;
    std::string level;
    std::string verdict;
    std::string why; ///< one line
    std::string bug; ///< a known bug that it looks like
    std::string command;
};

std::string fits_of(const ordered_json& failure) {
    std::string all;
    for (const ordered_json& fit : list(failure, "fits"))
        all += (all.empty() ? "" : "; ") + plain(fit);
    return all;
}

SummaryRow row_of_entry(const Entry& entry) {
    const ordered_json& row = *entry.json;
    const ordered_json& failure = at(row, "failure");
    const std::string shrunk = text(failure, "command");
    return {.run = title(entry),
            .level = text(row, "level"),
            .verdict = entry.kind == Kind::planted ? "NOT CAUGHT" : name(entry.status),
            .why = reason(entry),
            .bug = fits_of(failure),
            .command = shrunk.empty() ? text(row, "command") : shrunk};
}

SummaryRow row_of_run(const ordered_json& run) {
    const std::string error = text(run, "error");
    return {.run = text(run, "path"),
            .level = text(run, "level"),
            .verdict = error.empty() ? text(run, "status") : "BAD INPUT",
            .why = error.empty() ? text(at(run, "failure"), "message") : error,
            .bug = fits_of(run),
            .command = text(run, "command")};
}

/// Nothing in it ends the cell, and no code ends within.
std::string cell(const std::string& text, bool code = false) {
    std::string result;
    for (const char one : one_line(clean(text)))
        result += one == '|' ? "\\|" : std::string(1, code && one == '`' ? '\'' : one);
    return code && !result.empty() ? "`" + result + "`" : result;
}

std::string table(const std::string& headline, const std::vector<SummaryRow>& rows) {
    std::string result = "### " + cell(headline) + "\n\n";
    if (rows.empty())
        return result;
    result += "| run | level | verdict | why | looks like | repeat with |\n|---|---|---|---|---|---|\n";
    for (const SummaryRow& row : rows)
        result += "| " + cell(row.run) + " | " + cell(row.level) + " | " + row.verdict + " | " +
                  cell(row.why) + " | " + cell(row.bug) + " | " + cell(row.command, true) + " |\n";
    return result + "\n";
}

/// The rows that are failures, as workflow commands, where GitHub reads this process's output.
void annotate(const std::vector<SummaryRow>& rows) {
    const char* on_github = std::getenv("GITHUB_ACTIONS");
    if (on_github == nullptr || std::string_view(on_github) != "true")
        return;
    for (const SummaryRow& row : rows) {
        if (row.verdict == name(Status::passed))
            continue;
        std::string words;
        for (const char one : row.run + ": " + row.verdict + (row.why.empty() ? "" : ": " + row.why) +
                                  (row.bug.empty() ? "" : "; " + row.bug))
            words += one == '%' ? "%25" : one == '\r' ? "%0D" : one == '\n' ? "%0A" : std::string(1, one);
        std::printf("::error title=truestep::%s\n", words.c_str());
    }
}

void add(const std::string& path, const std::string& markdown) {
    std::ofstream file(path, std::ios::app);
    file << markdown;
    file.close();
    if (!file)
        throw Error("--summary " + path + " cannot be written; check the folder and its rights");
}

std::vector<SummaryRow> rows_of(const GroupedResults& all) {
    std::vector<SummaryRow> rows;
    for (const Entry* entry : all.failures)
        rows.push_back(row_of_entry(*entry));
    return rows;
}

std::vector<SummaryRow> rows_of(const ordered_json& runs) {
    std::vector<SummaryRow> rows;
    for (const ordered_json& run : list(runs, "traces"))
        rows.push_back(row_of_run(run));
    return rows;
}

} // namespace

std::string summary(const std::vector<nlohmann::ordered_json>& results) {
    const GroupedResults all = gather(results);
    return table("truestep: " + verdict(all), rows_of(all));
}

std::string runs_summary(const nlohmann::ordered_json& runs) {
    return table("truestep verify", rows_of(runs));
}

void add_summary(const std::string& path, const std::vector<nlohmann::ordered_json>& results) {
    if (path.empty())
        return;
    annotate(rows_of(gather(results)));
    add(path, summary(results));
}

void add_runs_summary(const std::string& path, const nlohmann::ordered_json& runs) {
    if (path.empty())
        return;
    annotate(rows_of(runs));
    add(path, runs_summary(runs));
}

} // namespace truestep::report

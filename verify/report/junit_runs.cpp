// Writes recorded runs as JUnit.
#include <truestep/report/runs.hpp>

#include "junit_elements.hpp"
#include "page_rows.hpp"

namespace truestep::report {

namespace {

using namespace page; // the words and the escaping are shared
using junit::attribute;

struct RunCase {
    std::string name;
    Status status = Status::passed;
    std::string message; ///< why it did not pass, one line
    std::string details; ///< additional information, several lines
};

std::string all_lines(const ordered_json& lines, const std::string& before) {
    std::string result;
    for (const ordered_json& line : lines)
        result += before + plain(line) + "\n";
    return result;
}

std::string told_failure(const ordered_json& run) {
    const ordered_json& failure = at(run, "failure");
    std::string result = text(failure, "details");
    result += all_lines(list(run, "fits"), "what may be wrong: ");
    return result + "repeat with: " + text(run, "command") + "\n";
}

bool is_where_it_parts(const ordered_json& row, const ordered_json& first) {
    return first.is_object() && text(first, "phase") == text(row, "phase") &&
           text(first, "result") == text(row, "result");
}

RunCase case_of_row(const ordered_json& run, const ordered_json& row) {
    RunCase made{text(row, "phase") + " " + text(row, "result"), status_of(text(row, "status")), "", ""};
    const bool here = is_where_it_parts(row, at(at(run, "failure"), "first"));
    if (here)
        made.status = Status::failed;
    if (made.status == Status::untested) {
        made.status = Status::skipped;
        made.message = number(row, "unbounded") > 0.0 ? "no value has a finite bound" : "not recorded";
    } else if (made.status != Status::passed) {
        made.message = here ? text(at(run, "failure"), "message")
                            : text(row, "mismatched") + " of " + text(row, "compared") + " values differ";
        made.details = here ? told_failure(run) : std::string();
    }
    return made;
}

/// The verdict as a test case: a run whose rows all pass may still prove nothing.
RunCase case_of_run(const ordered_json& run) {
    RunCase made{"verdict", status_of(text(run, "status")), "", ""};
    if (made.status == Status::passed)
        return made;
    made.message = at(run, "failure").is_object() ? text(at(run, "failure"), "message")
                                                  : "too little was compared to prove anything";
    made.details = all_lines(list(run, "notes"), "note: ") + told_failure(run);
    return made;
}

std::string outcome_of(const RunCase& made) {
    if (made.status == Status::passed)
        return {};
    if (made.status == Status::skipped)
        return junit::outcome("skipped", made.message);
    return junit::outcome("failure", name(made.status) + ": " + made.message, class_of(made.status),
                          made.details);
}

} // namespace

std::string runs_junit(const nlohmann::ordered_json& runs) {
    const std::string properties = junit::properties({runs});
    junit::Cases named;
    junit::Counts sum;
    std::string suites;
    for (const ordered_json& run : list(runs, "traces")) {
        junit::Counts counts;
        std::string cases;
        const std::string path = text(run, "path");
        if (const std::string error = text(run, "error"); !error.empty()) {
            counts = {.tests = 1, .failures = 0, .errors = 1, .skipped = 0, .seconds = 0.0};
            cases = named.element(path, "verdict", 0.0, junit::outcome("error", error, "bad input"));
        } else {
            std::vector<RunCase> all{case_of_run(run)};
            for (const ordered_json& row : list(run, "rows"))
                all.push_back(case_of_row(run, row));
            for (const RunCase& made : all) {
                // The time belongs to the whole run, so it appears once.
                const double seconds = &made == &all.front() ? number(run, "seconds") : 0.0;
                counts.add({.tests = 1,
                            .failures = is_bad(made.status) ? 1U : 0U,
                            .errors = 0,
                            .skipped = made.status == Status::skipped ? 1U : 0U,
                            .seconds = seconds});
                cases += named.element(path, made.name, seconds, outcome_of(made));
            }
        }
        sum.add(counts);
        suites += "  <testsuite" + attribute("name", path) + counts.attributes() + ">\n" + properties +
                  cases + "  </testsuite>\n";
    }
    return junit::document(sum, suites);
}

} // namespace truestep::report

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/report/status.hpp>

#include "page_text.hpp"

/// The common parts of the page and JUnit: the rows of all results, their words and signs, and the
/// page's sections.
namespace truestep::report::page {

enum class Kind { matrix, property, planted };

/// A row of any of the three lists.
struct Entry {
    const ordered_json* json;
    Kind kind;
    Status status;           ///< for a known bug: passed if it was caught
    std::size_t failure = 0; ///< its number among the failures, from 1; 0: not a failure
    std::string anchor() const { return "failure-" + std::to_string(failure); }
};

[[nodiscard]] bool is_bad(Status status);
/// Parses a status such as "PASSED"; unknown ones are failures.
[[nodiscard]] Status status_of(const std::string& name_of_status);

/// All results together.
struct GroupedResults {
    GroupedResults() = default;
    GroupedResults(GroupedResults&&) = default; // a copy's failures would be the original's
    std::vector<Entry> matrix;
    std::vector<Entry> properties;
    std::vector<Entry> planted;
    std::vector<const Entry*> failures;  ///< in this order
    std::array<std::size_t, 5> counts{}; ///< of matrix and properties, by Status
    double seconds = 0.0;

    [[nodiscard]] std::size_t count(Status status) const {
        return counts[static_cast<std::size_t>(status)];
    }
    [[nodiscard]] std::size_t rows() const { return matrix.size() + properties.size(); }
    [[nodiscard]] std::size_t caught() const;
};

/// Points into `results`, which must outlive it; a list in braces would not, and does not compile.
[[nodiscard]] GroupedResults gather(std::span<const ordered_json> results);
[[nodiscard]] std::string verdict(const GroupedResults& all);
/// The status of all results together.
[[nodiscard]] Status overall(const GroupedResults& all);

/// A title such as "sharded · in_process · 3 workers · ...", plain text.
[[nodiscard]] std::string title(const Entry& entry);
/// "step 3, phase residual, residual of rank 1, tensor wq, index 5 (coordinate 5)", plain text.
[[nodiscard]] std::string place(const ordered_json& first);
/// Why a row that is not a plain failure did not pass, plain text; else "".
[[nodiscard]] std::string explanation(const Entry& entry);
/// The message of a failure, else its explanation.
[[nodiscard]] std::string reason(const Entry& entry);
/// The meanings of REL and MISTRUSTED, for those that appear on the page: sentences, or "".
[[nodiscard]] std::string explained_words(bool rel, bool mistrusted);

[[nodiscard]] std::string badge(const Entry& entry);

/// The contents of the element <style>.
[[nodiscard]] const char* style();
/// The part of it that a chart in a separate file needs, too.
[[nodiscard]] const char* chart_style();
/// The shrunk problem as a grid: columns are coordinates, bands are ranks.
[[nodiscard]] std::string drawing(const ordered_json& drawing, const ordered_json& first);
/// Failures that probably have one cause: one of them is shown, with the smallest case.
struct Cause {
    std::string name; ///< "first wrong: residual"; "": unknown, shown by itself
    const Entry* shown;
    std::vector<const Entry*> others;
};
[[nodiscard]] std::vector<Cause> causes(const GroupedResults& all);
/// The other failures, folded: each one's title and command.
[[nodiscard]] std::string other_failures(const Cause& cause);
/// The place where a run first differs from the reference, and the values around it: `first` of
/// docs/results.md.
[[nodiscard]] std::string divergence(const ordered_json& first);
/// A heading and its lines of text; "" if there are none.
[[nodiscard]] std::string listed(const std::string& heading, const ordered_json& lines);
/// The details of a failure: message, first divergence, neighbourhood, drawing, command, trace.
[[nodiscard]] std::string failure_body(const Entry& entry);

[[nodiscard]] std::string heat_maps(const GroupedResults& all);
[[nodiscard]] std::string property_tables(const GroupedResults& all);
[[nodiscard]] std::string planted_table(const GroupedResults& all);
[[nodiscard]] std::string slowest_table(const GroupedResults& all);
[[nodiscard]] std::string row_tables(const GroupedResults& all);

/// The settings of a row of the matrix, in its order, except those that every row of every system
/// has.
[[nodiscard]] std::vector<std::string> settings_of(const nlohmann::ordered_json& row);

} // namespace truestep::report::page

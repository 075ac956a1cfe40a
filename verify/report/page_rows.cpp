// Gathers the rows of result files, orders failures, and words titles, statuses and explanations.
#include "page_rows.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace truestep::report::page {

namespace {

void add_all(std::vector<Entry>& entries, const ordered_json& rows, Kind kind) {
    for (const ordered_json& row : rows) {
        const ordered_json& caught = at(row, "caught");
        const bool was_caught = caught.is_boolean() && caught.get<bool>();
        entries.push_back({&row, kind,
                           kind != Kind::planted ? status_of(text(row, "status"))
                           : was_caught          ? Status::passed
                                                 : Status::failed,
                           0});
    }
}

} // namespace

Status status_of(const std::string& name_of_status) {
    for (const Status status : {Status::passed, Status::skipped, Status::mistrusted, Status::untested})
        if (name_of_status == name(status))
            return status;
    return Status::failed;
}

bool is_bad(Status status) {
    return status != Status::passed && status != Status::skipped;
}

std::size_t GroupedResults::caught() const {
    return static_cast<std::size_t>(std::count_if(
        planted.begin(), planted.end(), [](const Entry& entry) { return entry.status == Status::passed; }));
}

GroupedResults gather(std::span<const ordered_json> results) {
    GroupedResults all;
    for (const ordered_json& result : results) {
        add_all(all.matrix, list(result, "rows"), Kind::matrix);
        add_all(all.properties, list(result, "properties"), Kind::property);
        add_all(all.planted, list(result, "planted"), Kind::planted);
        all.seconds += number(result, "seconds");
    }
    // Failures come before unproved rows.
    for (const bool failed : {true, false})
        for (std::vector<Entry>* entries : {&all.properties, &all.matrix, &all.planted})
            for (Entry& entry : *entries)
                if (is_bad(entry.status) && (entry.status == Status::failed) == failed) {
                    all.failures.push_back(&entry);
                    entry.failure = all.failures.size();
                }
    for (const std::vector<Entry>* entries : {&all.matrix, &all.properties})
        for (const Entry& entry : *entries)
            ++all.counts[static_cast<std::size_t>(entry.status)];
    return all;
}

std::string verdict(const GroupedResults& all) {
    const std::size_t failed = all.count(Status::failed);
    const std::size_t unproved = all.count(Status::mistrusted) + all.count(Status::untested);
    const std::size_t skipped = all.count(Status::skipped);
    const std::size_t missed = all.planted.size() - all.caught();
    const std::string rows = count_of(all.rows(), "row");
    const std::string bugs = count_of(all.planted.size(), "known bug");
    const auto of = [](std::size_t part, const std::string& whole) {
        return count_text(static_cast<double>(part)) + " of " + whole;
    };
    const std::string missed_text = of(missed, bugs) + (missed == 1 ? " was" : " were") + " not caught";
    if (all.rows() == 0) {
        if (all.planted.empty())
            return "Nothing was checked";
        return missed > 0 ? missed_text
                          : (all.planted.size() == 1 ? "The one known bug was caught"
                                                     : "All " + bugs + " were caught");
    }
    std::string headline;
    if (failed > 0)
        headline = of(failed, rows) + " failed";
    else if (unproved > 0)
        headline = of(unproved, rows) + (unproved == 1 ? " proves nothing" : " prove nothing");
    else if (skipped == all.rows())
        headline = "Nothing was checked: " + (skipped == 1 ? "the only row was" : "all " + rows + " were") +
                   " skipped";
    else if (skipped > 0)
        headline = "All " + count_of(all.rows() - skipped, "row") + " that ran passed, " +
                   count_text(static_cast<double>(skipped)) + (skipped == 1 ? " was" : " were") +
                   " skipped";
    else
        headline = all.rows() == 1 ? "The one row passed" : "All " + rows + " passed";
    if (missed > 0)
        headline += (failed + unproved > 0 ? "; " : ", but ") + missed_text;
    return headline;
}

Status overall(const GroupedResults& all) {
    if (all.count(Status::failed) > 0 || all.caught() < all.planted.size())
        return Status::failed;
    if (all.count(Status::mistrusted) > 0)
        return Status::mistrusted;
    const bool proved = all.count(Status::passed) > 0 || !all.planted.empty();
    return all.count(Status::untested) > 0 || !proved ? Status::untested : Status::passed;
}

std::string title(const Entry& entry) {
    const ordered_json& row = *entry.json;
    const auto with = [&](const std::string& word, const std::string& key) {
        const std::string value = text(row, key);
        return value.empty() ? value : word + value;
    };
    switch (entry.kind) {
    case Kind::matrix: {
        const std::string workers = text(row, "workers");
        std::vector<std::string> parts{
            text(row, "implementation"), text(row, "communicator"),
            workers.empty() ? "" : workers + (workers == "1" ? " worker" : " workers")};
        for (const std::string& setting : settings_of(row))
            if (setting != "workers")
                parts.push_back(with(setting + " ", setting));
        parts.push_back(text(row, "level"));
        return joined(parts, " · ");
    }
    case Kind::property:
        // 0 is the reference itself.
        return joined({text(row, "number") == "0" ? "property" : with("property ", "number"),
                       text(row, "property"), text(row, "implementation"), text(row, "communicator")},
                      " · ");
    case Kind::planted:
        break;
    }
    return joined({with("known bug ", "number"), text(row, "name")}, " · ");
}

std::string place(const ordered_json& first) {
    std::string where =
        joined({text(first, "step").empty() ? "" : word_for(first, "step") + " " + text(first, "step"),
                text(first, "phase").empty() ? "" : "phase " + text(first, "phase")},
               ", ");
    std::string what = text(first, "result");
    if (at(first, "rank").is_number())
        what += number(first, "rank") < 0.0 ? " (the same on all " + word_for(first, "rank") + "s)"
                                            : " of " + word_for(first, "rank") + " " + text(first, "rank");
    const std::string tensor = text(first, "tensor");
    return joined({where, what, tensor.empty() ? "" : "tensor " + tensor,
                   place_text(first, "index").empty() ? "" : "index " + place_text(first, "index")},
                  ", ") +
           (place_text(first, "coordinate").empty()
                ? ""
                : " (coordinate " + place_text(first, "coordinate") + ")");
}

std::string explained_words(bool rel, bool mistrusted) {
    return joined(
        {rel ? "REL: each value lies within a bound on the rounding of fp32, around the reference "
               "in double precision."
             : "",
         mistrusted ? "MISTRUSTED: no difference was found, but too few of the compared values are "
                      "non-zero to prove anything."
                    : ""},
        " ");
}

std::string explanation(const Entry& entry) {
    std::string reason = text(*entry.json, "reason");
    if (entry.kind == Kind::planted && entry.status == Status::failed)
        return "No property caught this bug: the gate would let it through.";
    if (entry.status == Status::mistrusted)
        return reason.empty()
                   ? "No difference was found, but too few of the compared values are non-zero to "
                     "prove anything."
                   : reason;
    if (entry.status == Status::untested)
        return reason.empty() ? "There was nothing to compare." : reason;
    return reason;
}

std::string reason(const Entry& entry) {
    const std::string message = text(at(*entry.json, "failure"), "message");
    return message.empty() ? explanation(entry) : message;
}

std::string class_of(Status status) {
    switch (status) {
    case Status::passed:
        return "passed";
    case Status::skipped:
        return "skipped";
    case Status::mistrusted:
    case Status::untested:
        return "doubtful";
    case Status::failed:
        break;
    }
    return "failed";
}

std::string symbol(Status status) {
    switch (status) {
    case Status::passed:
        return "✓";
    case Status::skipped:
        return "–";
    case Status::mistrusted:
    case Status::untested:
        return "?";
    case Status::failed:
        break;
    }
    return "✕";
}

std::string badge(const Entry& entry) {
    const std::string word = entry.kind != Kind::planted      ? std::string(name(entry.status))
                             : entry.status == Status::passed ? "CAUGHT"
                                                              : "NOT CAUGHT";
    return badge(entry.status, word);
}

std::string badge(Status status, const std::string& word) {
    return "<span class=\"badge " + class_of(status) + "\"><span aria-hidden=\"true\">" + symbol(status) +
           "</span> " + word + "</span>";
}

std::vector<std::string> settings_of(const ordered_json& row) {
    constexpr std::array<std::string_view, 13> of_every_row{
        "implementation", "communicator", "level",  "cases",  "compared", "wrong",  "max_ulp",
        "share_of_limit", "seconds",      "status", "reason", "command",  "failure"};
    std::vector<std::string> settings;
    if (!row.is_object())
        return settings;
    for (const auto& [key, value] : row.items())
        if (std::find(of_every_row.begin(), of_every_row.end(), key) == of_every_row.end())
            settings.push_back(key);
    return settings;
}

} // namespace truestep::report::page

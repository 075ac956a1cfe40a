// The tables of the page.
#include "page_rows.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace truestep::report::page {

namespace {

using Group = std::pair<std::string, std::vector<const Entry*>>;

/// Groups in the order in which the names first appear.
std::vector<Group> grouped(const std::vector<Entry>& entries,
                           const std::function<std::string(const Entry&)>& name_of) {
    std::vector<Group> groups;
    for (const Entry& entry : entries) {
        const std::string name = name_of(entry);
        auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return group.first == name; });
        if (found == groups.end())
            found = groups.insert(groups.end(), {name, {}});
        found->second.push_back(&entry);
    }
    return groups;
}

std::string joined_keys(const Entry& entry, const std::vector<std::string>& keys) {
    std::string result;
    for (const std::string& key : keys)
        if (const std::string value = text(*entry.json, key); !value.empty())
            result += (result.empty() ? "" : " · ") + value;
    return result.empty() ? "no name" : result;
}

std::string group_of_row(const Entry& entry) {
    return joined_keys(entry, {"implementation", "communicator", "level"});
}

std::size_t passed(const std::vector<const Entry*>& entries) {
    return static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), [](const Entry* entry) {
        return entry->status == Status::passed;
    }));
}

std::string tally(const std::vector<const Entry*>& entries) {
    return count_text(static_cast<double>(passed(entries))) + " of " + count_of(entries.size(), "row") +
           " passed";
}

/// The line that replaces an empty grid, if no row was run and all for one reason; else "".
std::string skipped_line(const Group& group) {
    const std::string reason = text(*group.second.front()->json, "reason");
    const bool all = std::ranges::all_of(group.second, [&](const Entry* entry) {
        return entry->status == Status::skipped && text(*entry->json, "reason") == reason;
    });
    return all ? "<p class=\"skipped-line\"><b>" + escaped(group.first) + "</b> <span class=\"quiet\">" +
                     count_of(group.second.size(), "row") + " skipped: " + escaped(reason) + "</span></p>"
               : std::string();
}

/// Sorts failures first, then rows that prove nothing, then rows that were not run.
int badness(Status status) {
    switch (status) {
    case Status::passed:
        return 0;
    case Status::skipped:
        return 1;
    case Status::untested:
        return 2;
    case Status::mistrusted:
        return 3;
    case Status::failed:
        break;
    }
    return 4;
}

std::string linked(const Entry& entry, const std::string& html) {
    return entry.failure == 0 ? html : "<a href=\"#" + entry.anchor() + "\">" + html + "</a>";
}

std::string count_of_row(const Entry& entry, const std::string& key) {
    return text(*entry.json, key).empty() ? "–" : count_text(number(*entry.json, key));
}

std::string time_of(const Entry& entry) {
    return escaped(duration(number(*entry.json, "seconds")));
}

/// A meter of up to 100 %.
std::string bar(double share) {
    return "<span class=\"bar\"><span style=\"width:" +
           fixed(100.0 * std::clamp(share == share ? share : 1.0, 0.0, 1.0), 0) + "%\"></span></span>";
}

std::string heat_cell(const std::vector<const Entry*>& entries) {
    if (entries.empty())
        return element("td.none", element("span.sr", "no row"));
    const Entry* worst = entries.front();
    double share = 0.0;
    for (const Entry* entry : entries) {
        if (badness(entry->status) > badness(worst->status))
            worst = entry;
        share = std::max(share, number(*entry->json, "share_of_limit"));
    }
    const bool exact = share == 0.0 && worst->status != Status::failed &&
                       std::all_of(entries.begin(), entries.end(), [](const Entry* entry) {
                           return text(*entry->json, "level") == "EXACT";
                       });
    const bool ran = badness(worst->status) != 1 || passed(entries) > 0;
    const std::string inside =
        element("span.tally", "<span aria-hidden=\"true\">" + symbol(worst->status) + "</span>" +
                                  element("span.sr", name(worst->status)) + " " +
                                  std::to_string(passed(entries)) + "/" + std::to_string(entries.size())) +
        element("span.share", !ran    ? "skipped"
                              : exact ? "exact"
                                      : escaped(percentage(share))) +
        (ran && !exact ? bar(share) : "");
    return element("td.heat." + class_of(worst->status), linked(*worst, inside));
}

/// The value of a setting, by which columns are sorted: numbers descending, texts alphabetically.
using Value = std::pair<double, std::string>;

Value value_of(const ordered_json& row, const std::string& setting) {
    const ordered_json& value = at(row, setting);
    return {value.is_number() ? -value.get<double>() : 0.0, plain(value)};
}

std::string heat_map(const Group& group) {
    const auto settings = settings_of(*group.second.front()->json);
    const std::string across = settings.size() > 1 ? settings[1] : std::string();
    std::set<double> workers;
    std::set<Value> columns;
    std::map<std::pair<double, Value>, std::vector<const Entry*>> cells;
    for (const Entry* entry : group.second) {
        const double worker_count = number(*entry->json, "workers");
        const Value column = value_of(*entry->json, across);
        workers.insert(worker_count);
        columns.insert(column);
        cells[{worker_count, column}].push_back(entry);
    }
    std::string head = element("th.corner", "workers \\ <wbr>" + escaped(across), {{"scope", "col"}});
    for (const Value& column : columns)
        head += element("th", escaped(column.second), {{"scope", "col"}});
    std::string rows;
    for (const double worker_count : workers) {
        std::string row = element("th", escaped(plain(worker_count)), {{"scope", "row"}});
        for (const Value& column : columns)
            row += heat_cell(cells[{worker_count, column}]);
        rows += element("tr", row);
    }
    const std::string width = fixed(5.0 + 7.0 * static_cast<double>(columns.size()), 0);
    return element(
        "div.map",
        wide(group.first, element("table.heat-map",
                                  element("caption", element("b", escaped(group.first)) + "<br>" +
                                                         element("span.quiet", tally(group.second))) +
                                      element("thead", element("tr", head)) + element("tbody", rows),
                                  {{"style", "max-width:" + width + "rem"}})));
}

std::string also_by(const ordered_json& row) {
    constexpr std::size_t shown = 2;
    const ordered_json& others = list(row, "also");
    std::string names;
    for (const ordered_json& other : others)
        names += (names.empty() ? "" : ", ") + escaped(plain(other));
    if (others.size() <= shown)
        return names.empty() ? "–" : names;
    return folded(std::to_string(others.size()) + " others", names);
}

/// How many of the cases were of each kind.
std::string classes(const ordered_json& property) {
    const ordered_json& kinds = at(property, "classes");
    const double cases = number(property, "cases");
    if (!kinds.is_object() || kinds.empty())
        return "–";
    std::string html;
    for (const auto& [kind, count] : kinds.items())
        html += element("li", escaped(kind) + " " +
                                  element("b", cases > 0.0 && count.is_number()
                                                   ? escaped(percentage(count.get<double>() / cases))
                                                   : escaped(plain(count))));
    return element("ul.chips", html);
}

} // namespace

std::string heat_maps(const GroupedResults& all) {
    std::string html =
        "<p class=\"lead\">A cell is one worker count and one value of the next setting, over all values "
        "of the "
        "others: the rows that passed, and the worst share of the limit that any value took. "
        "100 % is the limit; exact: the same bits as the reference. " +
        explained_words(
            std::ranges::any_of(all.matrix,
                                [](const Entry& entry) { return text(*entry.json, "level") == "REL"; }),
            all.count(Status::mistrusted) > 0) +
        "</p><div class=\"maps\">";
    std::string skipped;
    for (const Group& group : grouped(all.matrix, group_of_row)) {
        const std::string line = skipped_line(group);
        skipped += line;
        if (line.empty())
            html += heat_map(group);
    }
    return html + "</div>" + skipped;
}

std::string property_tables(const GroupedResults& all) {
    std::string html;
    for (const Group& group : grouped(all.properties, [](const Entry& entry) {
             return joined_keys(entry, {"implementation", "communicator"});
         })) {
        if (const std::string line = skipped_line(group); !line.empty()) {
            html += line;
            continue;
        }
        HtmlTable table(
            "stack", element("b", escaped(group.first)) + " " + element("span.quiet", tally(group.second)),
            "status:status, no.:number, property:head, cases:number, of which:words, time:number", true);
        for (const Entry* entry : group.second) {
            const ordered_json& row = *entry->json;
            const std::string number_text = text(row, "number");
            table.row({linked(*entry, badge(*entry)),
                       number_text.empty() || number_text == "0" ? "–" : escaped(number_text),
                       escaped(row, "property") + element("span.says", escaped(row, "says")) +
                           (entry->status == Status::skipped
                                ? element("span.says", "Skipped: " + escaped(row, "reason"))
                                : ""),
                       count_of_row(*entry, "cases"), classes(row), time_of(*entry)});
        }
        html += table.html();
    }
    return html;
}

std::string planted_table(const GroupedResults& all) {
    double most = 0.0;
    double evaluations = 0.0;
    for (const Entry& entry : all.planted) {
        most = std::max(most, number(*entry.json, "cases"));
        evaluations += number(*entry.json, "evaluations");
    }
    std::string html = "<p class=\"sum\"><b>" + count_text(static_cast<double>(all.planted.size())) +
                       " made, " + count_text(static_cast<double>(all.caught())) + " caught</b></p>";
    html += "<p class=\"lead\">Each bug was built into an implementation for real; the gate then had to "
            "find it on "
            "its own, and to shrink what it found. No bug took more than " +
            count_text(most) + (most == 1.0 ? " case" : " cases") + "; all the shrinking took " +
            count_text(evaluations) + " runs.</p>";
    HtmlTable table("stack", "Known bugs",
                    "status:status, no.:number, bug:head, caught by:words, also by:words, "
                    "cases:number, elements:number, ranks:number, steps:number, time:number");
    std::string shrunk;
    for (std::size_t i = 0; i < all.planted.size(); ++i) {
        const Entry& entry = all.planted[i];
        const ordered_json& row = *entry.json;
        const std::string anchor = "bug-" + std::to_string(i + 1);
        std::string name_of_bug = escaped(row, "name");
        if (entry.failure == 0 && at(row, "failure").is_object()) {
            // The id is inside, so that following the link opens it.
            shrunk += folded(escaped(row, "number") + " · " + name_of_bug,
                             element("div", failure_body(entry), {{"id", anchor}}), "details.case");
            name_of_bug = element("a", name_of_bug, {{"href", "#" + anchor}});
        }
        const std::string first = text(row, "property");
        table.row({linked(entry, badge(entry)), escaped(row, "number"), name_of_bug,
                   first.empty() ? "–" : escaped(first), also_by(row), count_of_row(entry, "cases"),
                   count_of_row(entry, "elements"), count_of_row(entry, "ranks"),
                   count_of_row(entry, "steps"), time_of(entry)});
    }
    html += table.html();
    return shrunk.empty()
               ? html
               : html + folded("The smallest case that shows each bug, drawn", shrunk, "details.cases");
}

std::string slowest_table(const GroupedResults& all) {
    constexpr std::size_t shown = 10;
    std::vector<const Entry*> entries;
    for (const std::vector<Entry>* some : {&all.matrix, &all.properties, &all.planted})
        for (const Entry& entry : *some)
            entries.push_back(&entry);
    const auto seconds = [](const Entry* entry) { return number(*entry->json, "seconds"); };
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const Entry* a, const Entry* b) { return seconds(a) > seconds(b); });
    entries.resize(std::min(entries.size(), shown));
    HtmlTable table("slowest", "The slowest rows", "time:number, row:head");
    const double longest = entries.empty() ? 0.0 : seconds(entries.front());
    for (const Entry* entry : entries)
        table.row({time_of(*entry),
                   escaped(title(*entry)) + bar(longest > 0.0 ? seconds(entry) / longest : 0.0)});
    return table.html();
}

std::string row_tables(const GroupedResults& all) {
    std::string html;
    for (const Group& group : grouped(all.matrix, group_of_row)) {
        if (!skipped_line(group).empty())
            continue; // its line is above, in the matrix
        const auto settings = settings_of(*group.second.front()->json);
        std::vector<HtmlTable::Column> columns{{"status"}};
        for (const std::string& setting : settings)
            columns.push_back({escaped(setting)});
        for (const char* column : {"cases", "values", "wrong", "max ULP", "of limit", "time"})
            columns.push_back({column, "number"});
        HtmlTable table("rows", "All rows of " + escaped(group.first), columns);
        for (const Entry* entry : group.second) {
            const ordered_json& row = *entry->json;
            std::vector<std::string> cells{
                linked(*entry, badge(*entry)) +
                (entry->status == Status::skipped ? element("span.says", escaped(row, "reason")) : "")};
            for (const std::string& key : settings)
                cells.emplace_back(escaped(row, key));
            for (const char* key : {"cases", "compared", "wrong", "max_ulp"})
                cells.emplace_back(count_text(number(row, key)));
            cells.emplace_back(escaped(percentage(number(row, "share_of_limit"))));
            cells.emplace_back(time_of(*entry));
            table.row(cells);
        }
        html += folded(escaped(group.first) + " " + element("span.quiet", tally(group.second)),
                       wide("All rows of " + group.first, table.html()));
    }
    return html;
}

} // namespace truestep::report::page

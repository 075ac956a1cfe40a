// The tables of the page.
#include "page_parts.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace truestep::report::page {

namespace {

using Group = std::pair<std::string, std::vector<const Entry*>>;

/// In the order in which the names come first.
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

/// Where none of them was run, and all for one reason: what stands in place of an empty grid. Else "".
std::string skipped_line(const Group& group) {
    const std::string reason = text(*group.second.front()->json, "reason");
    const bool all = std::ranges::all_of(group.second, [&](const Entry* entry) {
        return entry->status == Status::skipped && text(*entry->json, "reason") == reason;
    });
    return all ? "<p class=\"skipped-line\"><b>" + escaped(group.first) + "</b> <span class=\"quiet\">" +
                     count_of(group.second.size(), "row") + " skipped: " + escaped(reason) + "</span></p>"
               : std::string();
}

/// Failures first, then what proves nothing, then what was not run.
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

/// Begins a table that fits on a phone because its rows become cards there. The roles keep it a table for
/// those who have it read to them, in browsers that forget it when the style turns rows into blocks.
std::string stacked(const std::string& caption, const std::vector<std::string>& columns) {
    std::string html = "<table class=\"stack\" role=\"table\"><caption>" + caption +
                       "</caption><thead role=\"rowgroup\"><tr role=\"row\">";
    const std::set<std::string> of_numbers{"no.", "cases", "elements", "ranks", "steps", "time"};
    for (const std::string& column : columns)
        html += std::string("<th scope=\"col\" role=\"columnheader\"") +
                (of_numbers.contains(column) ? " class=\"number\">" : ">") + column + "</th>";
    return html + "</tr></thead><tbody role=\"rowgroup\">";
}

/// `content` is HTML. On a phone the label stands before it.
std::string cell(const std::string& label, const std::string& content, const std::string& kind = "") {
    return "<td role=\"cell\" data-label=\"" + label + "\"" +
           (kind.empty() ? "" : " class=\"" + kind + "\"") + ">" + content + "</td>";
}

std::string linked(const Entry& entry, const std::string& html) {
    return entry.failure == 0 ? html : "<a href=\"#" + entry.anchor() + "\">" + html + "</a>";
}

std::string count_cell(const Entry& entry, const std::string& label, const std::string& key) {
    return cell(label, text(*entry.json, key).empty() ? "–" : count_text(number(*entry.json, key)),
                "number");
}

std::string time_cell(const Entry& entry) {
    return cell("time", escaped(duration(number(*entry.json, "seconds"))), "number");
}

/// A meter of up to 100 %.
std::string bar(double share) {
    return "<span class=\"bar\"><span style=\"width:" +
           fixed(100.0 * std::clamp(share == share ? share : 1.0, 0.0, 1.0), 0) + "%\"></span></span>";
}

std::string heat_cell(const std::vector<const Entry*>& entries) {
    if (entries.empty())
        return "<td class=\"none\"><span class=\"sr\">no row</span></td>";
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
    std::string inside = "<span class=\"tally\"><span aria-hidden=\"true\">" + symbol(worst->status) +
                         "</span><span class=\"sr\">" + name(worst->status) + "</span> " +
                         std::to_string(passed(entries)) + "/" + std::to_string(entries.size()) +
                         "</span><span class=\"share\">" +
                         (!ran    ? "skipped"
                          : exact ? "exact"
                                  : escaped(percentage(share))) +
                         "</span>" + (ran && !exact ? bar(share) : "");
    return "<td class=\"heat " + class_of(worst->status) + "\">" + linked(*worst, inside) + "</td>";
}

/// A value of a setting, as columns are ordered: numbers downwards, texts by the alphabet.
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
    std::string html =
        "<div class=\"map\"><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" +
        escaped(group.first) + "\"><table class=\"heat-map\" style=\"max-width:" +
        fixed(5.0 + 7.0 * static_cast<double>(columns.size()), 0) + "rem\"><caption><b>" +
        escaped(group.first) + "</b><br><span class=\"quiet\">" + tally(group.second) +
        "</span></caption><thead><tr><th scope=\"col\" class=\"corner\">workers \\ "
        "<wbr>" +
        escaped(across) + "</th>";
    for (const Value& column : columns)
        html += "<th scope=\"col\">" + escaped(column.second) + "</th>";
    html += "</tr></thead><tbody>";
    for (const double worker_count : workers) {
        html += "<tr><th scope=\"row\">" + escaped(plain(worker_count)) + "</th>";
        for (const Value& column : columns)
            html += heat_cell(cells[{worker_count, column}]);
        html += "</tr>";
    }
    return html + "</tbody></table></div></div>";
}

std::string also_by(const ordered_json& row) {
    constexpr std::size_t shown = 2;
    const ordered_json& others = list(row, "also");
    std::string names;
    for (const ordered_json& other : others)
        names += (names.empty() ? "" : ", ") + escaped(plain(other));
    if (others.size() <= shown)
        return names.empty() ? "–" : names;
    return "<details><summary>" + std::to_string(others.size()) + " others</summary>" + names +
           "</details>";
}

/// How many of the cases were of each kind.
std::string classes(const ordered_json& property) {
    const ordered_json& kinds = at(property, "classes");
    const double cases = number(property, "cases");
    if (!kinds.is_object() || kinds.empty())
        return "–";
    std::string html = "<ul class=\"chips\">";
    for (const auto& [kind, count] : kinds.items())
        html += "<li>" + escaped(kind) + " <b>" +
                (cases > 0.0 && count.is_number() ? escaped(percentage(count.get<double>() / cases))
                                                  : escaped(plain(count))) +
                "</b></li>";
    return html + "</ul>";
}

} // namespace

std::string heat_maps(const Gathered& all) {
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

std::string property_tables(const Gathered& all) {
    std::string html;
    for (const Group& group : grouped(all.properties, [](const Entry& entry) {
             return joined_keys(entry, {"implementation", "communicator"});
         })) {
        if (const std::string line = skipped_line(group); !line.empty()) {
            html += line;
            continue;
        }
        html += stacked("<b>" + escaped(group.first) + "</b> <span class=\"quiet\">" + tally(group.second) +
                            "</span>",
                        {"status", "no.", "property", "cases", "of which", "time"});
        for (const Entry* entry : group.second) {
            const ordered_json& row = *entry->json;
            const std::string number_text = text(row, "number");
            html += "<tr role=\"row\">" + cell("status", linked(*entry, badge(*entry)), "status") +
                    cell("no.", number_text.empty() || number_text == "0" ? "–" : escaped(number_text),
                         "number") +
                    "<th scope=\"row\" role=\"rowheader\">" + escaped(row, "property") +
                    "<span class=\"says\">" + escaped(row, "says") + "</span>" +
                    (entry->status == Status::skipped
                         ? "<span class=\"says\">Skipped: " + escaped(row, "reason") + "</span>"
                         : "") +
                    "</th>" + count_cell(*entry, "cases", "cases") +
                    cell("of which", classes(row), "words") + time_cell(*entry) + "</tr>";
        }
        html += "</tbody></table>";
    }
    return html;
}

std::string planted_table(const Gathered& all) {
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
    html += stacked("Planted bugs", {"status", "no.", "bug", "caught by", "also by", "cases", "elements",
                                     "ranks", "steps", "time"});
    std::string shrunk;
    for (std::size_t i = 0; i < all.planted.size(); ++i) {
        const Entry& entry = all.planted[i];
        const ordered_json& row = *entry.json;
        const std::string anchor = "bug-" + std::to_string(i + 1);
        std::string name_of_bug = escaped(row, "name");
        if (entry.failure == 0 && at(row, "failure").is_object()) {
            // The id is inside, so that following the link opens it.
            shrunk += "<details class=\"case\"><summary>" + escaped(row, "number") + " · " + name_of_bug +
                      "</summary><div id=\"" + anchor + "\">" + failure_body(entry) + "</div></details>";
            name_of_bug = "<a href=\"#" + anchor + "\">" + name_of_bug + "</a>";
        }
        const std::string first = text(row, "property");
        html += "<tr role=\"row\">" + cell("status", linked(entry, badge(entry)), "status") +
                cell("no.", escaped(row, "number"), "number") + "<th scope=\"row\" role=\"rowheader\">" +
                name_of_bug + "</th>" + cell("caught by", first.empty() ? "–" : escaped(first), "words") +
                cell("also by", also_by(row), "words");
        for (const char* key : {"cases", "elements", "ranks", "steps"})
            html += count_cell(entry, key, key);
        html += time_cell(entry) + "</tr>";
    }
    html += "</tbody></table>";
    return shrunk.empty()
               ? html
               : html +
                     "<details class=\"cases\"><summary>The smallest case that shows each bug, drawn"
                     "</summary>" +
                     shrunk + "</details>";
}

std::string slowest_table(const Gathered& all) {
    constexpr std::size_t shown = 10;
    std::vector<const Entry*> entries;
    for (const std::vector<Entry>* some : {&all.matrix, &all.properties, &all.planted})
        for (const Entry& entry : *some)
            entries.push_back(&entry);
    const auto seconds = [](const Entry* entry) { return number(*entry->json, "seconds"); };
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const Entry* a, const Entry* b) { return seconds(a) > seconds(b); });
    entries.resize(std::min(entries.size(), shown));
    std::string html =
        "<table class=\"slowest\"><caption class=\"sr\">The slowest rows</caption><thead><tr>"
        "<th scope=\"col\">time</th><th scope=\"col\">row</th></tr></thead><tbody>";
    const double longest = entries.empty() ? 0.0 : seconds(entries.front());
    for (const Entry* entry : entries)
        html += "<tr><td class=\"number\">" + escaped(duration(seconds(entry))) +
                "</td><th scope=\"row\">" + escaped(title(*entry)) +
                bar(longest > 0.0 ? seconds(entry) / longest : 0.0) + "</th></tr>";
    return html + "</tbody></table>";
}

std::string row_tables(const Gathered& all) {
    std::string html;
    for (const Group& group : grouped(all.matrix, group_of_row)) {
        if (!skipped_line(group).empty())
            continue; // its line stands above, in the matrix
        html += "<details><summary>" + escaped(group.first) + " <span class=\"quiet\">" +
                tally(group.second) +
                "</span></summary><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"All rows "
                "of " +
                escaped(group.first) + "\"><table class=\"rows\"><caption class=\"sr\">All rows of " +
                escaped(group.first) + "</caption><thead><tr>";
        const auto settings = settings_of(*group.second.front()->json);
        std::vector<std::string> columns{"status"};
        columns.insert(columns.end(), settings.begin(), settings.end());
        for (const char* column : {"cases", "values", "wrong", "max ULP", "of limit", "time"})
            columns.emplace_back(column);
        for (const std::string& column : columns)
            html += "<th scope=\"col\">" + escaped(column) + "</th>";
        html += "</tr></thead><tbody>";
        for (const Entry* entry : group.second) {
            const ordered_json& row = *entry->json;
            html += "<tr><td>" + linked(*entry, badge(*entry)) +
                    (entry->status == Status::skipped
                         ? "<span class=\"says\">" + escaped(row, "reason") + "</span>"
                         : "") +
                    "</td>";
            for (const std::string& key : settings)
                html += "<td>" + escaped(row, key) + "</td>";
            for (const char* key : {"cases", "compared", "wrong", "max_ulp"})
                html += "<td class=\"number\">" + count_text(number(row, key)) + "</td>";
            html += "<td class=\"number\">" + escaped(percentage(number(row, "share_of_limit"))) +
                    "</td><td class=\"number\">" + escaped(duration(number(row, "seconds"))) + "</td></tr>";
        }
        html += "</tbody></table></div></details>";
    }
    return html;
}

} // namespace truestep::report::page

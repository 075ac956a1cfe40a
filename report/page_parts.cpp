#include "page_parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <scape/problem/text.hpp>

namespace scape::report::page {

namespace {

/// The bytes of the UTF-8 character that begins here, if they are one that XML and HTML may hold; else 0.
std::size_t character_length(std::string_view bytes) {
    const auto byte = [&](std::size_t i) {
        return static_cast<unsigned>(static_cast<unsigned char>(bytes[i]));
    };
    const unsigned lead = byte(0);
    const std::size_t length = lead < 0x80U ? 1 : lead >= 0xf0U ? 4 : lead >= 0xe0U ? 3 : 2;
    if ((lead >= 0x80U && lead < 0xc2U) || lead > 0xf4U || bytes.size() < length)
        return 0;
    unsigned code = length == 1 ? lead : lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80U)
            return 0;
        code = code << 6U | (byte(i) & 0x3fU);
    }
    const bool overlong = (length == 3 && code < 0x800U) || (length == 4 && code < 0x10000U);
    const bool surrogate = code >= 0xd800U && code <= 0xdfffU;
    const bool beyond = code > 0x10ffffU || code == 0xfffeU || code == 0xffffU;
    return overlong || surrogate || beyond ? 0 : length;
}

Status status_of(const std::string& name_of_status) {
    for (const Status status : {Status::passed, Status::skipped, Status::mistrusted, Status::untested})
        if (name_of_status == name(status))
            return status;
    return Status::failed;
}

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

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
    std::string result;
    for (const std::string& part : parts)
        if (!part.empty())
            result += (result.empty() ? "" : between) + part;
    return result;
}

} // namespace

const ordered_json& at(const ordered_json& object, const std::string& key) {
    static const ordered_json null;
    if (!object.is_object())
        return null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
}

std::string plain(const ordered_json& value) {
    if (value.is_string())
        return value.get<std::string>();
    if (value.is_number_float())
        return shortest(value.get<double>());
    return value.is_number() || value.is_boolean() ? value.dump() : std::string();
}

std::string text(const ordered_json& object, const std::string& key) {
    const ordered_json& value = at(object, key);
    return value.is_boolean() ? std::string() : plain(value);
}

std::string place_text(const ordered_json& object, const std::string& key) {
    return at(object, key).is_number() && number(object, key) < 0.0 ? std::string() : text(object, key);
}

double number(const ordered_json& object, const std::string& key) {
    const ordered_json& value = at(object, key);
    if (value.is_number())
        return value.get<double>();
    return value == "inf" ? std::numeric_limits<double>::infinity() : 0.0;
}

const ordered_json& list(const ordered_json& object, const std::string& key) {
    static const ordered_json empty = ordered_json::array();
    const ordered_json& value = at(object, key);
    return value.is_array() ? value : empty;
}

std::string clean(std::string_view bytes) {
    std::string result;
    while (!bytes.empty()) {
        const std::size_t length = character_length(bytes);
        const char first = bytes.front();
        if (length == 0)
            result += "\xef\xbf\xbd"; // the replacement character
        else if (length > 1 || (first >= ' ' && first != '\x7f') || first == '\n' || first == '\t')
            result += bytes.substr(0, length);
        bytes.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

std::string escaped(std::string_view raw) {
    std::string result;
    for (const char one : clean(raw))
        switch (one) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        case '\'':
            result += "&#39;";
            break;
        default:
            result += one;
        }
    return result;
}

std::string escaped(const ordered_json& object, const std::string& key) {
    return escaped(text(object, key));
}

std::string fixed(double value, int digits) {
    if (!std::isfinite(value))
        return std::isnan(value) ? "NaN" : value < 0.0 ? "-∞" : "∞";
    std::array<char, 400> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits)
            .ptr;
    return {buffer.data(), end};
}

std::string count_text(double count) {
    std::string digits = fixed(count, 0);
    if (!std::isfinite(count))
        return digits;
    const std::size_t sign = digits.starts_with('-') ? 1 : 0;
    for (std::size_t i = digits.size(); i > sign + 3; i -= 3)
        digits.insert(i - 3, ",");
    return digits;
}

std::string count_of(std::size_t count, const std::string& thing) {
    return count_text(static_cast<double>(count)) + " " + thing + (count == 1 ? "" : "s");
}

std::string duration(double seconds) {
    if (seconds < 0.0005)
        return "<1 ms";
    if (seconds < 0.9995)
        return fixed(1000.0 * seconds, 0) + " ms";
    if (seconds < 59.95)
        return fixed(seconds, 1) + " s";
    const double whole = std::round(seconds);
    const double minutes = std::floor(whole / 60.0);
    const std::string rest = fixed(whole - 60.0 * minutes, 0);
    return count_text(minutes) + " min " + (rest.size() == 1 ? "0" : "") + rest + " s";
}

std::string distance(std::uint32_t a, std::uint32_t b) {
    constexpr std::uint32_t magnitude = 0x7fffffffU;
    constexpr std::uint32_t infinity = 0x7f800000U;
    if (a == b || (a & magnitude) >= infinity || (b & magnitude) >= infinity)
        return {};
    if ((a & magnitude) == 0 && (b & magnitude) == 0)
        return "only the sign of zero differs";
    const auto ordered = [](std::uint32_t bits) {
        const std::int64_t size = bits & magnitude;
        return bits > magnitude ? -size : size;
    };
    const std::int64_t apart = ordered(a) - ordered(b);
    return count_text(static_cast<double>(apart < 0 ? -apart : apart)) + " ULP";
}

std::string percentage(double share) {
    if (!std::isfinite(share))
        return "∞";
    const double percent = 100.0 * share;
    if (percent > 999.0)
        return ">999 %";
    // 100.4 % is beyond a limit and must not be shown as 100 %.
    const bool on_the_edge = percent > 99.0 && percent < 101.0 && percent != 100.0;
    const bool small = percent > 0.0 && percent < 0.95;
    return (percent > 0.0 && percent < 0.05 ? std::string("<0.1")
                                            : fixed(percent, small || on_the_edge ? 1 : 0)) +
           " %";
}

bool is_bad(Status status) {
    return status != Status::passed && status != Status::skipped;
}

std::size_t Gathered::caught() const {
    return static_cast<std::size_t>(std::count_if(
        planted.begin(), planted.end(), [](const Entry& entry) { return entry.status == Status::passed; }));
}

Gathered gather(const std::vector<ordered_json>& results) {
    Gathered all;
    for (const ordered_json& result : results) {
        add_all(all.matrix, list(result, "rows"), Kind::matrix);
        add_all(all.properties, list(result, "properties"), Kind::property);
        add_all(all.planted, list(result, "planted"), Kind::planted);
        all.seconds += number(result, "seconds");
    }
    // What failed comes before what was not proved.
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

std::string verdict(const Gathered& all) {
    const std::size_t failed = all.count(Status::failed);
    const std::size_t unproved = all.count(Status::mistrusted) + all.count(Status::untested);
    const std::size_t skipped = all.count(Status::skipped);
    const std::size_t missed = all.planted.size() - all.caught();
    const std::string rows = count_of(all.rows(), "row");
    const std::string bugs = count_of(all.planted.size(), "planted bug");
    const auto of = [](std::size_t part, const std::string& whole) {
        return count_text(static_cast<double>(part)) + " of " + whole;
    };
    const std::string missed_text = of(missed, bugs) + (missed == 1 ? " was" : " were") + " not caught";
    if (all.rows() == 0) {
        if (all.planted.empty())
            return "Nothing was checked";
        return missed > 0 ? missed_text
                          : (all.planted.size() == 1 ? "The one planted bug was caught"
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

Status overall(const Gathered& all) {
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
        // 0 is the reference's own.
        return joined({text(row, "number") == "0" ? "property" : with("property ", "number"),
                       text(row, "property"), text(row, "implementation"), text(row, "communicator")},
                      " · ");
    case Kind::planted:
        break;
    }
    return joined({with("planted bug ", "number"), text(row, "name")}, " · ");
}

std::string place(const ordered_json& first) {
    std::string where = joined({text(first, "step").empty() ? "" : "step " + text(first, "step"),
                                text(first, "phase").empty() ? "" : "phase " + text(first, "phase")},
                               ", ");
    std::string what = text(first, "result");
    if (at(first, "rank").is_number())
        what +=
            number(first, "rank") < 0.0 ? " (the same on all ranks)" : " of rank " + text(first, "rank");
    const std::string tensor = text(first, "tensor");
    return joined({where, what, tensor.empty() ? "" : "tensor " + tensor,
                   place_text(first, "index").empty() ? "" : "index " + place_text(first, "index")},
                  ", ") +
           (place_text(first, "coordinate").empty()
                ? ""
                : " (coordinate " + place_text(first, "coordinate") + ")");
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
    return "<span class=\"badge " + class_of(entry.status) + "\"><span aria-hidden=\"true\">" +
           symbol(entry.status) + "</span> " + word + "</span>";
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

} // namespace scape::report::page

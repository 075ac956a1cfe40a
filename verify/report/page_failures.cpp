// What is known of one failure.
#include "page_parts.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include <truestep/problem/text.hpp>

namespace truestep::report::page {

namespace {

std::optional<std::uint32_t> parsed_bits(const std::string& bits) {
    if (bits.size() != 10 || !bits.starts_with("0x"))
        return std::nullopt;
    return parse_number<std::uint32_t>(std::string_view(bits).substr(2), 16);
}

/// The bits with the digits marked in which they differ from the other ones.
std::string marked_bits(const std::string& bits, const std::string& others) {
    if (bits.empty())
        return {};
    std::string html = " <code class=\"bits\">";
    if (bits.size() != others.size() || !parsed_bits(bits))
        return html + escaped(bits) + "</code>";
    for (std::size_t i = 0; i < bits.size(); ++i)
        html +=
            bits[i] == others[i] ? std::string(1, bits[i]) : "<mark>" + std::string(1, bits[i]) + "</mark>";
    return html + "</code>";
}

std::string fact(const std::string& what, const std::string& value) {
    return value.empty() ? value : "<div><dt>" + what + "</dt><dd>" + escaped(value) + "</dd></div>";
}

std::string first_divergence(const ordered_json& first) {
    const std::string expected = text(first, "expected_bits");
    const std::string actual = text(first, "actual_bits");
    const auto expected_float = parsed_bits(expected);
    const auto actual_float = parsed_bits(actual);
    const std::string apart =
        expected_float && actual_float ? distance(*expected_float, *actual_float) : std::string();
    const bool all_ranks = at(first, "rank").is_number() && number(first, "rank") < 0.0;
    const std::string index = place_text(first, "index");
    const std::string coordinate = place_text(first, "coordinate");
    std::string html = "<h4>First divergence</h4><dl class=\"facts\">" +
                       fact(word_for(first, "step"), text(first, "step")) +
                       fact("phase", text(first, "phase")) + fact("result", text(first, "result")) +
                       fact(word_for(first, "rank"),
                            all_ranks ? "all " + word_for(first, "rank") + "s" : text(first, "rank")) +
                       fact("tensor", text(first, "tensor")) + fact("index", index) +
                       (coordinate == index ? "" : fact("coordinate", coordinate)) + "</dl>";
    if (text(first, "expected").empty() && text(first, "actual").empty())
        return html; // a rule was broken, without a value that it should have been
    html += "<dl class=\"pair\"><div><dt>expected</dt><dd><span class=\"value\">" +
            escaped(first, "expected") + "</span>" + marked_bits(expected, actual) +
            "</dd></div><div class=\"actual\"><dt>actual</dt>" + "<dd><span class=\"value\">" +
            escaped(first, "actual") + "</span>" + marked_bits(actual, expected) + "</dd></div></dl>";
    return html + (apart.empty()
                       ? ""
                       : "<p class=\"quiet\">" + apart + (apart.ends_with("ULP") ? " apart" : "") + "</p>");
}

std::string neighbourhood(const ordered_json& first) {
    const ordered_json& near = list(first, "near");
    if (near.empty())
        return {};
    std::string html =
        "<h4>Around it</h4><div class=\"wide\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"The neighbourhood\"><table class=\"near\"><caption class=\"sr\">Expected "
        "and actual values around the first divergence</caption><thead><tr>"
        "<th scope=\"col\">coordinate</th><th scope=\"col\">expected</th><th scope=\"col\">"
        "actual</th></tr></thead><tbody>";
    for (const ordered_json& value : near) {
        const bool good = at(value, "ok") == true;
        const std::string expected = text(value, "expected_bits");
        const std::string actual = text(value, "actual_bits");
        html += std::string(good ? "<tr>" : "<tr class=\"bad\">") + "<th scope=\"row\">" +
                (good ? "<span class=\"sign\" title=\"right\">✓</span> "
                      : "<span class=\"sign\" title=\"wrong\">✕</span> ") +
                escaped(value, "coordinate") + (good ? "" : "<span class=\"sr\"> (wrong)</span>") +
                "</th><td>" + escaped(value, "expected") + marked_bits(expected, good ? expected : actual) +
                "</td><td>" + escaped(value, "actual") + marked_bits(actual, good ? actual : expected) +
                "</td></tr>";
    }
    return html + "</tbody></table></div>";
}

/// A value that is wrong says more than a rule that is broken, and a smaller case more than a larger one.
bool says_more(const Entry& one, const Entry& two) {
    const ordered_json& a = at(*one.json, "failure");
    const ordered_json& b = at(*two.json, "failure");
    const auto has_place = [](const ordered_json& failure) {
        const ordered_json& first = at(failure, "first");
        return first.is_object() && !text(first, "phase").empty();
    };
    if (has_place(a) != has_place(b))
        return has_place(a);
    return text(a, "case").size() < text(b, "case").size();
}

/// The shrunk case's own, where it is told; files of before only had the row's.
std::string command_of(const Entry& entry) {
    const std::string own = text(at(*entry.json, "failure"), "command");
    return own.empty() ? text(*entry.json, "command") : own;
}

} // namespace

std::vector<Cause> causes(const Gathered& all) {
    std::vector<Cause> result;
    std::map<std::string, std::size_t> known;
    for (const Entry* entry : all.failures) {
        const std::string name =
            entry->status == Status::failed ? text(at(*entry->json, "failure"), "cause") : std::string();
        const auto found = known.find(name);
        if (name.empty() || found == known.end()) {
            known[name] = result.size();
            result.push_back({name, entry, {}});
            continue;
        }
        Cause& cause = result[found->second];
        if (says_more(*entry, *cause.shown))
            std::swap(entry, cause.shown);
        cause.others.push_back(entry);
    }
    return result;
}

std::string other_failures(const Cause& cause) {
    if (cause.others.empty())
        return {};
    std::string html = "<details class=\"others\"><summary>" +
                       count_of(cause.others.size(), "other failure") +
                       ", perhaps of the same mistake <span class=\"quiet\">(" + escaped(cause.name) +
                       ")</span></summary>";
    for (const Entry* entry : cause.others)
        html += "<div class=\"other\" id=\"" + entry->anchor() + "\"><b>" + escaped(title(*entry)) +
                "</b><span class=\"says\">" + escaped(at(*entry->json, "failure"), "message") +
                "</span><pre>" + escaped(command_of(*entry)) + "</pre></div>";
    return html + "</details>";
}

std::string divergence(const ordered_json& first) {
    return "<div class=\"beside\"><div>" + first_divergence(first) + "</div><div>" + neighbourhood(first) +
           "</div></div>";
}

std::string listed(const std::string& heading, const ordered_json& lines) {
    if (lines.empty())
        return {};
    std::string html = "<h4>" + heading + "</h4><ul class=\"lines\">";
    for (const ordered_json& line : lines)
        html += "<li>" + escaped(plain(line)) + "</li>";
    return html + "</ul>";
}

std::string failure_body(const Entry& entry) {
    const ordered_json& failure = at(*entry.json, "failure");
    const ordered_json& first = at(failure, "first");
    std::string html;
    if (const std::string why = explanation(entry); !why.empty())
        html += "<p class=\"message\">" + escaped(why) + "</p>";
    if (!text(failure, "message").empty())
        html += "<p class=\"message\">" + escaped(failure, "message") + "</p>";
    if (first.is_object())
        html += listed("What may be wrong", list(failure, "fits")) + divergence(first);
    html += drawing(at(failure, "drawing"), first);
    if (!text(failure, "case").empty())
        html += "<h4>The shrunk case</h4><pre>" + escaped(failure, "case") + "</pre>";
    if (!command_of(entry).empty())
        html += "<h4>Run it again</h4><pre>" + escaped(command_of(entry)) + "</pre>";
    if (!text(failure, "trace").empty())
        html += "<p class=\"trace\">Saved trace: <code>" + escaped(failure, "trace") + "</code></p>";
    return html;
}

} // namespace truestep::report::page

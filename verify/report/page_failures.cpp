// Shows one failure with all its details.
#include "page_rows.hpp"

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

/// The bits with marks on the digits that differ from the others.
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
    std::string html =
        "<h4>First divergence</h4>" +
        element("dl.facts",
                fact(word_for(first, "step"), text(first, "step")) + fact("phase", text(first, "phase")) +
                    fact("result", text(first, "result")) +
                    fact(word_for(first, "rank"),
                         all_ranks ? "all " + word_for(first, "rank") + "s" : text(first, "rank")) +
                    fact("tensor", text(first, "tensor")) + fact("index", index) +
                    (coordinate == index ? "" : fact("coordinate", coordinate)));
    if (text(first, "expected").empty() && text(first, "actual").empty())
        return html; // a rule was broken, without an expected value
    const auto side = [&](const std::string& name, const std::string& bits, const std::string& others) {
        return element("dt", name) +
               element("dd", element("span.value", escaped(first, name)) + marked_bits(bits, others));
    };
    const std::string pair =
        element("dl.pair", element("div", side("expected", expected, actual)) +
                               element("div.actual", side("actual", actual, expected)));
    return html + pair +
           (apart.empty() ? "" : element("p.quiet", apart + (apart.ends_with("ULP") ? " apart" : "")));
}

std::string neighbourhood(const ordered_json& first) {
    const ordered_json& near = list(first, "near");
    if (near.empty())
        return {};
    HtmlTable table("near", "Expected and actual values around the first divergence",
                    {{"coordinate", "head"}, {"expected"}, {"actual"}});
    for (const ordered_json& value : near) {
        const bool good = at(value, "ok") == true;
        const std::string expected = text(value, "expected_bits");
        const std::string actual = text(value, "actual_bits");
        table.row({element("span.sign", good ? "✓" : "✕", {{"title", good ? "right" : "wrong"}}) + " " +
                       escaped(value, "coordinate") + (good ? "" : element("span.sr", " (wrong)")),
                   escaped(value, "expected") + marked_bits(expected, good ? expected : actual),
                   escaped(value, "actual") + marked_bits(actual, good ? actual : expected)},
                  good ? "" : "bad");
    }
    return "<h4>Around it</h4>" + wide("The neighbourhood", table.html());
}

/// Whether one failure is more informative: a wrong value before a broken rule, a smaller case
/// before a larger one.
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

/// The shrunk case's command if present; earlier files only have the row's.
std::string command_of(const Entry& entry) {
    const std::string own = text(at(*entry.json, "failure"), "command");
    return own.empty() ? text(*entry.json, "command") : own;
}

} // namespace

std::vector<Cause> causes(const GroupedResults& all) {
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
    std::string html;
    for (const Entry* entry : cause.others)
        html += element("div.other",
                        element("b", escaped(title(*entry))) +
                            element("span.says", escaped(at(*entry->json, "failure"), "message")) +
                            element("pre", escaped(command_of(*entry))),
                        {{"id", entry->anchor()}});
    return folded(count_of(cause.others.size(), "other failure") + ", perhaps with the same cause " +
                      element("span.quiet", "(" + escaped(cause.name) + ")"),
                  html, "details.others");
}

std::string divergence(const ordered_json& first) {
    return element("div.beside",
                   element("div", first_divergence(first)) + element("div", neighbourhood(first)));
}

std::string listed(const std::string& heading, const ordered_json& lines) {
    if (lines.empty())
        return {};
    std::string html;
    for (const ordered_json& line : lines)
        html += element("li", escaped(plain(line)));
    return element("h4", heading) + element("ul.lines", html);
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

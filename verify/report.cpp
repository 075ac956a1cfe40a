// Writes a verdict on a trace, or a difference of two traces, as text and as JSON.
#include <truestep/verify/report.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <truestep/problem/text.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/table.hpp>

namespace truestep::verify {

namespace {

using nlohmann::ordered_json;
using report::percent_of_limit;
using report::Table;
using report::ulps_text;

std::string divergence_text(const Divergence& divergence, const problem::Layout& layout,
                            const Words& words = {}) {
    std::string text = "  first divergence: " + place(divergence, layout, words) + "\n";
    if (!divergence.comparison.first.empty())
        text += "  " + summary(divergence.comparison) + " in this vector at this " +
                std::string(words.step) + "\n" + details(divergence.comparison, layout, "    ");
    if (!divergence.note.empty())
        text += "  note: " + divergence.note + "\n";
    return text;
}

ordered_json number(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(shortest(value));
}

ordered_json json_pair(const Pair& pair) {
    const auto bits = [](float value) {
        char text[16];
        std::snprintf(text, sizeof text, "0x%08x", std::bit_cast<std::uint32_t>(value));
        return std::string(text);
    };
    return {{"coordinate", pair.index},
            {"expected", number(static_cast<double>(pair.expected))},
            {"expected_bits", bits(pair.expected)},
            {"actual", number(static_cast<double>(pair.actual))},
            {"actual_bits", bits(pair.actual)},
            {"ulps", number(pair.ulps)},
            {"difference", number(pair.difference)},
            {"limit", number(pair.limit)},
            {"ok", pair.ok}};
}

ordered_json json_pairs(const std::vector<Pair>& pairs) {
    ordered_json list = ordered_json::array();
    for (const Pair& pair : pairs)
        list.push_back(json_pair(pair));
    return list;
}

ordered_json json_divergence(const Divergence& divergence, const problem::Layout& layout) {
    ordered_json json{
        {"step", divergence.step}, {"phase", divergence.phase}, {"result", divergence.result}};
    json["rank"] =
        divergence.rank == Divergence::all_ranks ? ordered_json() : ordered_json(divergence.rank);
    if (divergence.index && *divergence.index < layout.size()) {
        const std::size_t tensor = layout.tensor_at(*divergence.index);
        json["tensor"] = layout.tensors()[tensor].name;
        json["index"] = *divergence.index - layout.begin(tensor);
    }
    if (divergence.index)
        json["coordinate"] = *divergence.index;
    json["compared"] = divergence.comparison.compared;
    json["mismatched"] = divergence.comparison.mismatched;
    json["before"] = json_pairs(divergence.comparison.before);
    json["first"] = json_pairs(divergence.comparison.first);
    json["last"] = json_pairs(divergence.comparison.last);
    if (divergence.comparison.greatest)
        json["greatest"] = json_pair(*divergence.comparison.greatest);
    json["note"] = divergence.note;
    return json;
}

} // namespace

std::string place(const Divergence& divergence, const problem::Layout& layout, const Words& words) {
    const std::string rank(words.rank);
    std::string text = std::string(words.step) + " " + std::to_string(divergence.step) + ", phase " +
                       divergence.phase + ", " + divergence.result;
    text += divergence.rank == Divergence::all_ranks
                ? " (the same on all " + rank + "s)"
                : " of " + rank + " " + std::to_string(divergence.rank);
    if (divergence.index)
        text += ", " + (*divergence.index < layout.size()
                            ? layout.describe(*divergence.index)
                            : "beyond the last parameter (bit " + std::to_string(*divergence.index) + ")");
    return text;
}

std::string text_report(const TraceVerdict& verdict) {
    std::string text = "  problem  " + verdict.problem + "\n";
    text += "  source   " + one_line(verdict.source) + "\n";
    text += "  level    " + name(verdict.level) + ": " + explain(verdict.level) + "\n";
    text += "  from     " + name(verdict.from) +
            (verdict.from == ReferenceStart::recorded
                 ? ": each " + std::string(verdict.words.step) + " begins at the recorded state before it\n"
                 : ": the reference runs free\n");
    Table table({{"phase"},
                 {"result"},
                 {"values", true},
                 {"#wrong", true},
                 {"max ULP", true},
                 {"% of limit", true},
                 {"status"}});
    for (const Row& row : verdict.rows) {
        const bool any = row.compared > 0;
        table.add({row.phase, row.result, std::to_string(row.compared),
                   any ? std::to_string(row.mismatched) : "-", any ? ulps_text(row.greatest_ulps) : "-",
                   any ? percent_of_limit(row.share_of_limit, row.mismatched > 0) : "-",
                   name(row.status()) + (any                 ? ""
                                         : row.unbounded > 0 ? " (no finite bound)"
                                                             : " (not in the trace)")});
    }
    text += table.text("  ");
    for (const std::string& note : verdict.notes)
        text += "  note: " + note + "\n";
    if (verdict.first)
        text += divergence_text(*verdict.first, verdict.layout, verdict.words);
    if (verdict.status == Status::mistrusted)
        text += "  too few of the compared values are non-zero to prove anything\n";
    return text;
}

std::string text_report(const TraceDifference& difference, const std::string& a, const std::string& b) {
    std::string text = "expected: " + a + "\n     got: " + b + "\n";
    for (const std::string& line : difference.settings)
        text += "  " + line + "\n";
    for (const std::string& note : difference.notes)
        text += "  note: " + note + "\n";
    if (difference.input)
        text += "  the inputs differ\n" +
                divergence_text(*difference.input, difference.layout, difference.words);
    if (difference.result)
        text += divergence_text(*difference.result, difference.layout, difference.words);
    text += difference.same()
                ? "same: " + std::to_string(difference.compared) + " result values, every bit\n"
                : "different\n";
    return text;
}

nlohmann::ordered_json json_report(const TraceVerdict& verdict) {
    ordered_json rows = ordered_json::array();
    for (const Row& row : verdict.rows)
        rows.push_back({{"phase", row.phase},
                        {"result", row.result},
                        {"compared", row.compared},
                        {"mismatched", row.mismatched},
                        {"unbounded", row.unbounded},
                        {"nonzero", row.nonzero},
                        {"eligible", row.eligible},
                        {"max_ulp", number(row.greatest_ulps)},
                        {"share_of_limit", number(row.share_of_limit)},
                        {"status", name(row.status())}});
    ordered_json json{{"trace", verdict.path},          {"source", verdict.source},
                      {"level", name(verdict.level)},   {"from", name(verdict.from)},
                      {"status", name(verdict.status)}, {"rows", rows},
                      {"notes", verdict.notes}};
    json["first_divergence"] =
        verdict.first ? json_divergence(*verdict.first, verdict.layout) : ordered_json();
    return json;
}

nlohmann::ordered_json json_page(const TraceVerdict& verdict) {
    ordered_json page = json_report(verdict);
    page["problem"] = verdict.problem;
    page["steps"] = verdict.steps;
    page["explains_level"] = explain(verdict.level);
    page["words"] = {{"step", verdict.words.step}, {"rank", verdict.words.rank}};
    page.update(json(verdict.seen));
    if (!verdict.first) {
        page["failure"] = nullptr;
        return page;
    }
    const Divergence& divergence = *verdict.first;
    // The format of docs/results.md for a failure of the gate, so that pages draw both in the same
    // way.
    ordered_json first = page["first_divergence"];
    first["words"] = page["words"];
    if (first["rank"].is_null())
        first["rank"] = Divergence::all_ranks;
    // With as few digits as distinguish one float from the next.
    const auto shown = [](const Pair& pair) {
        ordered_json json = json_pair(pair);
        json["expected"] = shortest(pair.expected);
        json["actual"] = shortest(pair.actual);
        return json;
    };
    const Comparison& comparison = divergence.comparison;
    first["near"] = ordered_json::array();
    for (const auto* part : {&comparison.before, &comparison.first, &comparison.last})
        for (const Pair& pair : *part)
            first["near"].push_back(shown(pair));
    if (!comparison.first.empty())
        first.update(shown(comparison.first.front()));
    page["failure"] = {
        {"message", place(divergence, verdict.layout, verdict.words) +
                        (divergence.comparison.first.empty() ? "" : ": " + summary(divergence.comparison))},
        {"note", divergence.note},
        {"details", divergence_text(divergence, verdict.layout, verdict.words)},
        {"first", first}};
    return page;
}

} // namespace truestep::verify

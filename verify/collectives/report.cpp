// Writes the verdict on a run's collectives as text and as JSON.
#include <cmath>
#include <cstdio>

#include <truestep/problem/text.hpp>
#include <truestep/report/table.hpp>
#include <truestep/verify/collectives/check.hpp>

namespace truestep::verify::collectives {

namespace {

template <class Value>
void put(nlohmann::ordered_json& json, const char* key, const std::optional<Value>& value) {
    json[key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string chance_text(double chance) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%.3g %%", 100.0 * chance);
    return text.data();
}

} // namespace

double chance_seen(Index block, Index faults) {
    return -std::expm1(static_cast<double>(faults) * std::log1p(-1.0 / static_cast<double>(block)));
}

std::string text_report(const Verdict& verdict) {
    std::string text = "  run      " + verdict.run + "\n";
    report::Table table({{"collective"}, {"calls", true}, {"checked", true}, {"as"}});
    Index checked = 0;
    for (const auto& [name, count] : verdict.counts) {
        table.add({name, std::to_string(count.calls), std::to_string(count.checked), count.ops});
        checked += count.checked;
    }
    text += table.text("  ");
    if (verdict.steps > 0)
        text += "  gradients of " + std::to_string(verdict.steps) +
                " optimizer steps were compared between ranks\n";
    if (verdict.block > 1) {
        text += "  sample   one value of " + std::to_string(verdict.block) +
                " in each sum; k wrong values are seen with a chance of 1-(1-s)^k:";
        for (const Index faults : {1, 100, 10'000})
            text += " " + std::to_string(faults) + ": " + chance_text(chance_seen(verdict.block, faults)) +
                    (faults == 10'000 ? "\n" : ",");
    }
    for (const std::string& note : verdict.notes)
        text += "  note: " + note + "\n";
    for (const Finding& finding : verdict.findings) {
        text += (finding.kind == "hang" ? "HANGS  " : "WRONG  ") + finding.where + "\n       " +
                finding.what + "\n";
        for (const std::string& detail : finding.details)
            text += "         " + detail + "\n";
    }
    if (verdict.holds())
        return text + "hold: all of " + std::to_string(checked) + " collectives that were checked\n";
    return text + std::to_string(verdict.findings.size()) + " wrong, of " + std::to_string(checked) +
           " collectives that were checked\n";
}

nlohmann::ordered_json json_report(const Verdict& verdict) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const Finding& finding : verdict.findings) {
        nlohmann::ordered_json one{{"kind", finding.kind},
                                   {"where", finding.where},
                                   {"what", finding.what},
                                   {"details", finding.details},
                                   {"ranks", finding.ranks}};
        put(one, "index", finding.index);
        put(one, "found", finding.found);
        put(one, "expected", finding.expected);
        put(one, "bound", finding.bound);
        put(one, "factor", finding.factor);
        findings.push_back(std::move(one));
    }
    nlohmann::ordered_json counts = nlohmann::ordered_json::array();
    for (const auto& [name, count] : verdict.counts)
        counts.push_back(
            {{"collective", name}, {"calls", count.calls}, {"checked", count.checked}, {"as", count.ops}});
    return {{"run", verdict.run},     {"holds", verdict.holds()},      {"collectives", counts},
            {"steps", verdict.steps}, {"sample_block", verdict.block}, {"findings", findings},
            {"notes", verdict.notes}};
}

} // namespace truestep::verify::collectives

// Suggests why a run failed: a known bug, a hint from wrong values, or only rounding.
#include <truestep/verify/diagnosis.hpp>

#include <exception>
#include <optional>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/verify/report.hpp>

namespace truestep::verify {

namespace {

/// The verdict at the level whose bounds hold for the run's arithmetic, or nothing if that level is
/// not available.
std::optional<TraceVerdict> at_bounds(const Traces& traces, const TraceVerdict& verdict,
                                      VerifyOptions options) {
    options.level = verdict.keeps_bf16 ? Level::bf16() : Level::rel();
    options.look = false;
    options.progress = VerifyOptions().progress;
    try {
        return traces.verify(verdict.path, options);
    } catch (const std::exception&) { // a guess must not prevent the verdict
        return std::nullopt;
    }
}

/// The places where a run that is wrong at both levels first differs from the reference, if they
/// are not the same.
std::string parts_at(const TraceVerdict& bounded, const TraceVerdict& exact) {
    const Divergence& first = *bounded.first;
    if (first.step == exact.first->step && first.phase == exact.first->phase &&
        first.result == exact.first->result && first.rank == exact.first->rank)
        return {};
    return "at " + name(bounded.level) + " the first difference is at " +
           place(first, bounded.layout, bounded.words);
}

std::string only_rounding(const TraceVerdict& bounded, const TraceVerdict& exact) {
    const bool bf16 = bounded.level.kind == LevelKind::bf16;
    constexpr double ulps_of_one_in_bf16 = 0x1p16;
    constexpr double most_of_a_rounding = 16.0;
    if (bounded.status != Status::passed ||
        total(exact.rows).greatest_ulps > most_of_a_rounding * (bf16 ? ulps_of_one_in_bf16 : 1.0))
        return {};
    return name(bounded.level) + " passes and no value differs by more than 16 ULP" +
           (bf16 ? " of bf16" : "") + ": only rounding differs; try --level " + (bf16 ? "bf16" : "rel");
}

} // namespace

std::vector<std::string> what_may_be_wrong(const Traces& traces, const TraceVerdict& verdict,
                                           const VerifyOptions& options) {
    if (verdict.status != Status::failed || !verdict.first)
        return {};
    std::optional<TraceVerdict> bounded;
    if (verdict.level.kind == LevelKind::exact)
        bounded = at_bounds(traces, verdict, options);
    const TraceVerdict& judged = bounded ? *bounded : verdict;
    const bool parts = judged.level.kind != LevelKind::exact && judged.status == Status::failed &&
                       judged.first.has_value();
    std::vector<std::string> lines;
    const auto add = [&](std::string line) {
        if (!line.empty())
            lines.push_back(std::move(line));
    };
    if (parts && traces.known_bug)
        try {
            add(traces.known_bug(judged));
        } catch (const std::exception& error) {
            add(std::string("known bugs were not tried within rounding: ") + error.what());
        }
    if (parts && bounded)
        add(parts_at(*bounded, verdict));
    const std::vector<std::string>& hints = verdict.hints.empty() && parts ? judged.hints : verdict.hints;
    lines.insert(lines.end(), hints.begin(), hints.end());
    if (bounded)
        add(only_rounding(*bounded, verdict));
    return lines;
}

std::string text_of_diagnosis(const std::vector<std::string>& lines) {
    std::string text = lines.empty() ? "" : "what may be wrong:\n";
    for (const std::string& line : lines)
        text += "  " + line + "\n";
    return text;
}

} // namespace truestep::verify

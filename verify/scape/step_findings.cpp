// Joins the findings of a step's pieces, and judges the recorded scales of payloads.
#include "step_findings.hpp"

#include <algorithm>
#include <utility>

#include "trace_piece.hpp"

namespace truestep::verify::scape {

namespace {

void shift(Comparison& comparison, Index offset) {
    for (auto* pairs : {&comparison.before, &comparison.first, &comparison.last})
        for (Pair& pair : *pairs)
            pair.index += offset;
    if (comparison.greatest)
        comparison.greatest->index += offset;
}

/// Keeps the last `count` of both.
void keep_last(std::vector<Pair>& into, const std::vector<Pair>& more, std::size_t count) {
    into.insert(into.end(), more.begin(), more.end());
    if (into.size() > count)
        into.erase(into.begin(), into.end() - static_cast<std::ptrdiff_t>(count));
}

/// Joins two comparisons as if their vectors had been compared as one.
void append(Comparison& into, const Comparison& piece, Index offset) {
    if (!piece.wrong.empty()) {
        into.wrong.resize(static_cast<std::size_t>(offset));
        into.wrong.insert(into.wrong.end(), piece.wrong.begin(), piece.wrong.end());
    }
    if (into.mismatched == 0)
        keep_last(into.before, piece.before, Comparison::shown_before);
    std::vector<Pair> bad = piece.first;
    while (!bad.empty() && into.first.size() < Comparison::shown_each_end) {
        into.first.push_back(bad.front());
        bad.erase(bad.begin());
    }
    keep_last(into.last, bad, Comparison::shown_each_end);
    keep_last(into.last, piece.last, Comparison::shown_each_end);
    into.expected_size += piece.expected_size;
    into.actual_size += piece.actual_size;
    into.compared += piece.compared;
    into.mismatched += piece.mismatched;
    into.unbounded += piece.unbounded;
    into.nonzero += piece.nonzero;
    if (piece.greatest && (!into.greatest || piece.greatest->difference > into.greatest->difference))
        into.greatest = piece.greatest;
    into.greatest_ulps = std::max(into.greatest_ulps, piece.greatest_ulps);
    into.share_of_limit = std::max(into.share_of_limit, piece.share_of_limit);
    into.scaled.times += piece.scaled.times;
    into.scaled.divided += piece.scaled.divided;
}

std::string range(int least, int most) {
    return std::to_string(least) + (least == most ? "" : " to " + std::to_string(most));
}

/// `from` is the step whose c determines E, which does not change if that c has no exponent.
std::string against_all(int recorded, const ScaleFound& from, int as_it_was, const std::string& where) {
    if (from.least == reference::scape::no_exponent && recorded == as_it_was)
        return {};
    const int least = std::max(from.least, reference::scape::lowest_exponent);
    if (from.most != reference::scape::no_exponent && recorded >= least && recorded <= from.most)
        return {};
    return "E of the payload's scale is recorded as " + std::to_string(recorded) + ", and " +
           (from.most == reference::scape::no_exponent
                ? where + " has nothing of 2^-126 or more: it stays " + std::to_string(as_it_was)
                : "the greatest |c| on the mask of " + where + " has " + range(least, from.most));
}

std::string against_a_part(int recorded, const ScaleFound& from, const std::string& where) {
    if (recorded >= from.least)
        return {};
    return "E of the payload's scale is recorded as " + std::to_string(recorded) +
           ", and what this sample holds of " + where + " has " + std::to_string(from.least) + " already";
}

} // namespace

void append(StepFindings& into, StepFindings piece, Index offset) {
    if (into.gradient && piece.gradient)
        into.gradient->squares += piece.gradient->squares;
    if (into.scale && piece.scale) {
        into.scale->least = std::max(into.scale->least, piece.scale->least);
        into.scale->most = std::max(into.scale->most, piece.scale->most);
    }
    into.mask_shifts.early.add(piece.mask_shifts.early);
    into.mask_shifts.late.add(piece.mask_shifts.late);
    into.updates += piece.updates;
    into.hidden_updates += piece.hidden_updates;
    for (std::size_t i = 0; i < into.kinds.size(); ++i) {
        if (into.kinds[i].size() != piece.kinds[i].size())
            throw NotByPieces();
        for (std::size_t j = 0; j < into.kinds[i].size(); ++j) {
            Finding& finding = into.kinds[i][j];
            Finding& more = piece.kinds[i][j];
            if (finding.comparison.ok())
                finding.note = std::move(more.note); // the note on the first wrong value
            finding.eligible = finding.eligible.value_or(0) + more.eligible.value_or(0);
            shift(more.comparison, offset);
            append(finding.comparison, more.comparison, offset);
        }
    }
}

std::string ScaleJudge::judge(const ScaleFound& found) {
    const auto before = std::exchange(before_, found);
    const bool first = std::exchange(begins_, false);
    if (!first && !before)
        return {}; // the exponents of the step before are unknown
    const ScaleFound& from = first ? found : *before;
    const std::string where = first ? "this step, the first," : "the step before";
    if (!holds_all_)
        return against_a_part(found.recorded, from, where);
    return against_all(found.recorded, from, first ? reference::scape::lowest_exponent : before->recorded,
                       where);
}

} // namespace truestep::verify::scape

#include "findings.hpp"

#include <algorithm>
#include <utility>

#include "trace_piece.hpp"

namespace truestep::verify {

namespace {

void shift(Comparison& comparison, Index offset) {
    for (auto* pairs : {&comparison.before, &comparison.first, &comparison.last})
        for (Pair& pair : *pairs)
            pair.index += offset;
    if (comparison.greatest)
        comparison.greatest->index += offset;
}

/// The last `count` of both.
void keep_last(std::vector<Pair>& into, const std::vector<Pair>& more, std::size_t count) {
    into.insert(into.end(), more.begin(), more.end());
    if (into.size() > count)
        into.erase(into.begin(), into.end() - static_cast<std::ptrdiff_t>(count));
}

/// As if they had been compared as one.
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

} // namespace

void append(StepFindings& into, StepFindings piece, Index offset) {
    if (into.gradient && piece.gradient)
        into.gradient->squares += piece.gradient->squares;
    if (into.scale && piece.scale) {
        into.scale->least = std::max(into.scale->least, piece.scale->least);
        into.scale->most = std::max(into.scale->most, piece.scale->most);
    }
    into.slips.early.add(piece.slips.early);
    into.slips.late.add(piece.slips.late);
    into.updates += piece.updates;
    into.hidden_updates += piece.hidden_updates;
    for (std::size_t i = 0; i < into.kinds.size(); ++i) {
        auto& of_kind = into.kinds[i];
        auto& more = piece.kinds[i];
        if (of_kind.findings.size() != more.findings.size())
            throw NotByPieces();
        of_kind.eligible += more.eligible;
        for (std::size_t j = 0; j < of_kind.findings.size(); ++j) {
            Finding& finding = of_kind.findings[j];
            if (finding.comparison.ok())
                finding.note = std::move(more.findings[j].note); // what is said of the first that is wrong
            shift(more.findings[j].comparison, offset);
            append(finding.comparison, more.findings[j].comparison, offset);
        }
    }
}

} // namespace truestep::verify

#include "teller.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <truestep/problem/text.hpp>

namespace truestep::verify {

Teller::Teller(const TraceHead& head) : problem_(head.problem), scales_(head) {
    rows_.push_back({std::string(name(Phase::check)), "outcome"});
    for (const ResultKind& kind : result_kinds)
        rows_.push_back({std::string(name(phase_of(kind.result, problem_))), std::string(kind.name)});
}

void Teller::tell(const StepFindings& found) {
    ++step_;
    ++rows_.front().compared;
    if (!found.halted.empty()) {
        add_divergence({step_,
                        std::string(name(Phase::update)),
                        "parameters",
                        Divergence::all_ranks,
                        std::nullopt,
                        {},
                        "the reference stops here: " + found.halted});
        ++rows_.front().mismatched;
    } else if (found.refused) {
        add_refused(found);
        if (!first_)
            ++refused_;
    } else {
        judge_norm(found);
        judge_scale(found);
        for (const ResultKind& kind : result_kinds) {
            const auto& of_kind = found.kinds[static_cast<std::size_t>(&kind - result_kinds.data())];
            add(kind, of_kind.findings, of_kind.eligible);
        }
    }
}

/// A part has no greater norm than the whole, but for the rounding of a sum in fp32.
void Teller::judge_norm(const StepFindings& found) {
    if (!found.gradient || !found.gradient->recorded)
        return;
    const double part = std::sqrt(found.gradient->squares);
    const double whole = *found.gradient->recorded;
    if (part <= whole * (1.0 + 0x1p-12))
        return;
    ++rows_.front().mismatched;
    add_divergence({step_,
                    std::string(name(Phase::clip)),
                    "norm",
                    Divergence::all_ranks,
                    std::nullopt,
                    {},
                    "the norm of the whole mean gradient is recorded as " + shortest(whole) +
                        ", and what this sample holds of it has " + shortest(part)});
}

/// Where it is another than the steps lead to, they have been compared with it all the same.
void Teller::judge_scale(const StepFindings& found) {
    const std::string wrong = found.scale ? scales_.judge(*found.scale) : "";
    if (wrong.empty())
        return;
    ++rows_.front().mismatched;
    add_divergence({step_,
                    std::string(name(Phase::exchange)),
                    "exponent",
                    Divergence::all_ranks,
                    std::nullopt,
                    {},
                    wrong});
}

void Teller::add(const ResultKind& kind, const std::vector<Finding>& findings, Index eligible_values) {
    Row& into = rows_[1 + static_cast<std::size_t>(&kind - result_kinds.data())];
    for (const Finding& finding : findings) {
        const Comparison& comparison = finding.comparison;
        into.mismatched += comparison.mismatched;
        // Beside another rank's copy nothing new is compared, and no limit is used up.
        if (!finding.between_ranks) {
            into.compared += comparison.compared;
            into.unbounded += comparison.unbounded;
            into.nonzero += comparison.nonzero;
            into.eligible += finding.eligible.value_or(kind.is_mask ? 0 : eligible_values);
            into.greatest_ulps = std::max(into.greatest_ulps, comparison.greatest_ulps);
            into.share_of_limit = std::max(into.share_of_limit, comparison.share_of_limit);
        }
        if (!comparison.ok())
            add_divergence(divergence(kind, phase_of(kind.result, problem_), finding));
    }
}

Divergence Teller::divergence(const ResultKind& kind, Phase phase, const Finding& finding) const {
    Divergence divergence{step_,
                          std::string(name(phase)),
                          std::string(kind.name),
                          finding.rank,
                          std::nullopt,
                          finding.comparison,
                          finding.note};
    divergence.between_ranks = finding.between_ranks;
    if (!finding.comparison.first.empty())
        divergence.index = finding.comparison.first.front().index;
    if (kind.is_mask && finding.rank == Divergence::all_ranks && divergence.index &&
        *divergence.index < problem_.layout.size())
        divergence.rank = owner_of(*divergence.index);
    if (phase == Phase::clip && !finding.between_ranks)
        divergence.note += std::string(divergence.note.empty() ? "" : "; ") +
                           "first_moment is M after clipping; record with --phases to tell the exchange "
                           "and the reconstruction apart from the clip";
    return divergence;
}

int Teller::owner_of(Index index) const {
    for (const problem::Segment& segment : problem_.segments)
        if (index < segment.end)
            return segment.owner;
    return Divergence::all_ranks;
}

void Teller::add_divergence(Divergence divergence) {
    if (!first_)
        first_ = std::move(divergence);
}

void Teller::add_refused(const StepFindings& found) {
    const reference::RefusedStep& refused = *found.refused;
    for (const ResultKind& kind : result_kinds)
        for (const Finding& finding :
             found.kinds[static_cast<std::size_t>(&kind - result_kinds.data())].findings) {
            if (finding.comparison.ok())
                continue;
            // Where the ranks are not alike, the rank that is wrong says more than the one that
            // refused.
            const bool of_a_rank = is_replicated(kind) && finding.rank != Divergence::all_ranks;
            Divergence changed = divergence(kind, Phase::check, finding);
            if (!of_a_rank) {
                changed.rank = refused.rank;
                changed.index = refused.index;
            }
            changed.note = std::string(refused.what()) + ". The trace shows changed " +
                           std::string(kind.name) +
                           (of_a_rank ? " of rank " + std::to_string(finding.rank) : "") + " after it" +
                           (finding.note.empty() ? "" : "; " + finding.note);
            ++rows_.front().mismatched;
            add_divergence(std::move(changed));
            return;
        }
}

} // namespace truestep::verify

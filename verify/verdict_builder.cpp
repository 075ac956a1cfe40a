// Builds the verdict on a trace from comparisons: rows, first divergence, maps and status.
#include <truestep/verify/verdict_builder.hpp>

#include <algorithm>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::verify {

VerdictBuilder::VerdictBuilder(const trace::Reader& trace, const VerifyOptions& options, TraceFacts facts)
    : verdict{trace.path().string(),
              trace.source(),
              std::move(facts.problem),
              trace.schema().layout,
              trace.schema().steps,
              options.level,
              options.from.value_or(trace.states_recorded() ? ReferenceStart::recorded
                                                            : ReferenceStart::start),
              {},
              {},
              std::nullopt,
              Status::untested},
      trace_(trace), look_(options.look) {
    verdict.words = facts.words;
    if (from_recorded() && !trace.states_recorded())
        throw Error(verdict.path + ": --from recorded is not available: not every " +
                    std::string(facts.words.step) + " holds " + facts.state + "; use --from start");
}

void VerdictBuilder::add_row(std::string phase, std::string result, bool mapped) {
    if (mapped && look_)
        verdict.seen.maps.emplace_back(phase, result, verdict.steps, trace_.schema().layout);
    verdict.rows.push_back({std::move(phase), std::move(result)});
}

Divergence* VerdictBuilder::add(std::string_view result, const Finding& finding) {
    draw(result, finding);
    const Comparison& comparison = finding.comparison;
    Row& row = *std::ranges::find(verdict.rows, result, &Row::result);
    row.mismatched += comparison.mismatched;
    // A comparison with another rank's copy adds no values, and uses no limit.
    if (!finding.between_ranks) {
        row.compared += comparison.compared;
        row.unbounded += comparison.unbounded;
        row.nonzero += comparison.nonzero;
        row.eligible += finding.eligible.value_or(comparison.compared);
        row.greatest_ulps = std::max(row.greatest_ulps, comparison.greatest_ulps);
        row.share_of_limit = std::max(row.share_of_limit, comparison.share_of_limit);
    }
    if (comparison.ok() || verdict.first)
        return nullptr;
    return diverge({step_, row.phase, row.result, finding.rank, comparison.first_wrong(), comparison,
                    finding.note, finding.between_ranks});
}

void VerdictBuilder::add_wrong(std::string phase, std::string result, int rank, std::string note) {
    ++verdict.rows.front().mismatched;
    diverge({step_, std::move(phase), std::move(result), rank, std::nullopt, {}, std::move(note)});
}

Divergence* VerdictBuilder::diverge(Divergence divergence) {
    if (verdict.first)
        return nullptr;
    return &verdict.first.emplace(std::move(divergence));
}

void VerdictBuilder::draw(std::string_view result, const Finding& finding) {
    const auto map = std::ranges::find(verdict.seen.maps, result, &DifferenceMap::result);
    if (map != verdict.seen.maps.end())
        map->add(step_, finding.comparison, finding.between_ranks);
}

Status VerdictBuilder::status() const {
    Row all;
    bool proves = true;
    for (const Row& row : verdict.rows) {
        // If hardly any value had a bound, nothing was compared.
        proves = proves && row.unbounded <= row.compared;
        all.mismatched += row.mismatched;
        if (&row == &verdict.rows.front())
            continue; // the outcome of a step is not data
        all.compared += row.compared;
        all.nonzero += row.eligible > 0 ? row.nonzero : 0;
        all.eligible += row.eligible;
    }
    const Status result = verdict.first ? Status::failed : all.status();
    return result == Status::passed && !proves ? Status::mistrusted : result;
}

TraceVerdict VerdictBuilder::finish(const std::string& unbounded_because) {
    verdict.status = status();
    const auto note = [this](Index count, const std::string& text) {
        if (count > 0)
            verdict.notes.push_back(std::to_string(count) + text);
    };
    const auto example = [](const std::vector<std::string>& names) {
        return names.empty() ? "" : ", such as '" + names.front() + "': ";
    };
    note(static_cast<Index>(trace_.unknown().size()),
         " tensors were not read" + example(trace_.unknown()) +
             "section 9 does not know them, or not for this algorithm");
    note(static_cast<Index>(trace_.missing().size()),
         " results are absent that the trace holds for other " + std::string(verdict.words.step) + "s or " +
             std::string(verdict.words.rank) + "s" + example(trace_.missing()) + "they were not compared");
    note(total(verdict.rows).unbounded, " values were not compared: " + unbounded_because);
    for (std::string& line : replica_notes(trace_.replica_counts(), trace_.schema().workers))
        verdict.notes.push_back(std::move(line));
    return std::move(verdict);
}

} // namespace truestep::verify

#include <truestep/verify/verdict.hpp>

#include <algorithm>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/verify/replicas.hpp>

namespace truestep::verify {

void add_notes(TraceVerdict& verdict, const trace::Reader& trace, const std::string& unbounded_because) {
    if (!trace.unknown().empty())
        verdict.notes.push_back(std::to_string(trace.unknown().size()) +
                                " tensors were not read, such as '" + trace.unknown().front() +
                                "': section 9 does not know them, or not for this algorithm");
    if (!trace.missing().empty())
        verdict.notes.push_back(
            std::to_string(trace.missing().size()) + " results are absent that the trace holds for other " +
            std::string(verdict.words.step) + "s or " + std::string(verdict.words.rank) + "s, such as '" +
            trace.missing().front() + "': they were not compared");
    Index unbounded = 0;
    for (const Row& row : verdict.rows)
        unbounded += row.unbounded;
    if (unbounded > 0)
        verdict.notes.push_back(std::to_string(unbounded) +
                                " values were not compared: " + unbounded_because);
    for (std::string& note : replica_notes(trace.replica_counts(), trace.schema().workers))
        verdict.notes.push_back(std::move(note));
}

Status overall(const std::vector<Row>& rows, bool diverged) {
    Row all;
    bool proves = true;
    for (const Row& row : rows) {
        // Where hardly any value had a bound, nothing was compared.
        proves = proves && row.unbounded <= row.compared;
        all.mismatched += row.mismatched;
        if (&row == &rows.front())
            continue; // the outcome of a step is no datum
        all.compared += row.compared;
        all.nonzero += row.eligible > 0 ? row.nonzero : 0;
        all.eligible += row.eligible;
    }
    const Status status = diverged ? Status::failed : all.status();
    return status == Status::passed && !proves ? Status::mistrusted : status;
}

Row total(const std::vector<Row>& rows) {
    Row all;
    for (const Row& row : rows) {
        all.compared += row.compared;
        all.mismatched += row.mismatched;
        all.unbounded += row.unbounded;
        all.nonzero += row.nonzero;
        all.eligible += row.eligible;
        all.greatest_ulps = std::max(all.greatest_ulps, row.greatest_ulps);
        all.share_of_limit = std::max(all.share_of_limit, row.share_of_limit);
    }
    return all;
}

std::string name(From from) {
    return from == From::recorded ? "recorded" : "start";
}

From parse_from(const std::string& text) {
    if (text == "recorded")
        return From::recorded;
    if (text == "start")
        return From::start;
    throw Error("--from is '" + text + "'; it must be recorded or start");
}

} // namespace truestep::verify

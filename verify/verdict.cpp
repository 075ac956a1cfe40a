// Adds up the rows of a verdict, and names where a step of the reference begins.
#include <truestep/verify/verdict.hpp>

#include <algorithm>

#include <truestep/problem/error.hpp>

namespace truestep::verify {

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

std::string name(ReferenceStart from) {
    return from == ReferenceStart::recorded ? "recorded" : "start";
}

ReferenceStart parse_from(const std::string& text) {
    if (text == "recorded")
        return ReferenceStart::recorded;
    if (text == "start")
        return ReferenceStart::start;
    throw Error("--from is '" + text + "'; it must be recorded or start");
}

} // namespace truestep::verify

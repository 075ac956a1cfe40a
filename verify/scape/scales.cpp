#include "scales.hpp"

#include <algorithm>
#include <utility>

namespace truestep::verify {

namespace {

std::string range(int least, int most) {
    return std::to_string(least) + (least == most ? "" : " to " + std::to_string(most));
}

/// `from`: the step whose c tells E, which stays as it was where that has no exponent.
std::string against_all(int recorded, const ScaleFound& from, int as_it_was, const std::string& where) {
    if (from.least == reference::no_exponent && recorded == as_it_was)
        return {};
    const int least = std::max(from.least, reference::lowest_exponent);
    if (from.most != reference::no_exponent && recorded >= least && recorded <= from.most)
        return {};
    return "E of the payload's scale is recorded as " + std::to_string(recorded) + ", and " +
           (from.most == reference::no_exponent
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

std::string ScaleJudge::judge(const ScaleFound& found) {
    const auto before = std::exchange(before_, found);
    const bool first = std::exchange(begins_, false);
    if (!first && !before)
        return {}; // what the step before it had is not known
    const ScaleFound& from = first ? found : *before;
    const std::string where = first ? "this step, the first," : "the step before";
    if (!holds_all_)
        return against_a_part(found.recorded, from, where);
    return against_all(found.recorded, from, first ? reference::lowest_exponent : before->recorded, where);
}

} // namespace truestep::verify

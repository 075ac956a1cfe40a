#include "hints.hpp"

#include <cstddef>

namespace truestep::verify {

namespace {

/// Of as many that fit it is no accident any more.
constexpr Index enough = 4;

/// What explains little explains nothing.
bool tells(Index wrong, Index explained) {
    return 2 * explained > wrong;
}

} // namespace

void Hints::Slipped::add(const MaskSlip& one) {
    wrong += one.wrong;
    if (!one.slipped())
        return;
    explained += one.explained;
    coordinates += one.coordinates;
    ++steps;
}

bool Hints::Slipped::tells() const {
    return coordinates >= enough && verify::tells(wrong, explained);
}

std::string Hints::Slipped::count() const {
    return std::to_string(explained) + " of " + std::to_string(wrong) +
           " segments in which it is wrong, at " + std::to_string(steps) +
           (steps == 1 ? " step" : " steps");
}

void Hints::see(const StepFindings& found, bool parted) {
    ++step_;
    early_.add(found.slips.early);
    late_.add(found.slips.late);
    // Later steps begin with what is wrong already.
    if (parted && !told_)
        tell_scales(found);
    told_ = parted;
}

void Hints::tell_scales(const StepFindings& found) {
    bool any_times = false;
    bool any_divided = false;
    for (const ResultKind& kind : result_kinds) {
        Index wrong = 0;
        Scaled scaled;
        for (const Finding& finding :
             found.kinds[static_cast<std::size_t>(&kind - result_kinds.data())].findings) {
            if (finding.between_ranks)
                continue;
            wrong += finding.comparison.mismatched;
            scaled.times += finding.comparison.scaled.times;
            scaled.divided += finding.comparison.scaled.divided;
        }
        for (const bool divided : {false, true}) {
            const Index fit = divided ? scaled.divided : scaled.times;
            if (fit < enough || !tells(wrong, fit))
                continue;
            if (kind.result == Result::parameters) {
                tell_steps(wrong, fit, divided);
                continue;
            }
            // What is made of it is scaled, too, and says no more.
            bool& any = divided ? any_divided : any_times;
            if (!any)
                tell_values(kind, wrong, fit, divided);
            any = true;
        }
    }
}

void Hints::tell_values(const ResultKind& kind, Index wrong, Index scaled, bool divided) {
    const std::string factor = (divided ? "1/" : "") + std::to_string(workers_);
    const bool of_all_ranks = !kind.per_rank;
    scales_.push_back(
        std::string(kind.name) + " of step " + std::to_string(step_) + ": " + std::to_string(scaled) +
        " of " + std::to_string(wrong) + " wrong values are " +
        (level_.kind == LevelKind::exact ? "exactly " : "within their limits ") + factor +
        (divided ? " of what they should be: " : " times what they should be: ") +
        (of_all_ranks ? divided ? "divided by the number of ranks twice?" : "a sum where a mean is asked?"
         : divided    ? "divided by the number of ranks, where it is one rank's own?"
                      : "multiplied by the number of ranks, or a sum over them?"));
}

void Hints::tell_steps(Index wrong, Index scaled, bool divided) {
    scales_.push_back(
        std::string(kind_of(Result::parameters).name) + " of step " + std::to_string(step_) + ": " +
        std::to_string(scaled) + " of " + std::to_string(wrong) + " wrong values went " +
        (divided ? "1/" : "") + std::to_string(workers_) + (divided ? " as far" : " times as far") +
        " as they should, to within rounding: a learning rate " + (divided ? "divided by" : "times") +
        " the number of ranks? Where most are off the mask, a weight decay?");
}

std::vector<std::string> Hints::lines() const {
    std::vector<std::string> lines;
    if (early_.tells())
        lines.push_back("mask: what the step makes as its next_mask, in " + early_.count() +
                        ": used, or recorded, without the delay of one step?");
    if (late_.tells())
        lines.push_back("next_mask: the mask that the step used, in " + late_.count() +
                        ": recorded one step late, or no new one made?");
    lines.insert(lines.end(), scales_.begin(), scales_.end());
    return lines;
}

} // namespace truestep::verify

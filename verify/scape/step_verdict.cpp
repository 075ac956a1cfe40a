// Turns step findings into verdict rows, hints at what wrong values share, and curves.
#include "step_verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include <truestep/problem/text.hpp>

namespace truestep::verify::scape {

namespace {

/// With this many matches it is no accident any more.
constexpr Index enough = 4;

/// A hint must explain more than half of the wrong values.
bool tells(Index wrong, Index explained) {
    return 2 * explained > wrong;
}

double norm_of(const std::vector<float>& values) {
    double sum = 0.0;
    for (const float value : values)
        sum += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(sum);
}

/// log2 of the number of ways to choose k of n, in bytes: no code of a mask is shorter for all of them.
double least_mask_bytes(Index n, Index k) {
    const auto log_factorial = [](Index of) { return std::lgamma(static_cast<double>(of) + 1.0); };
    return (log_factorial(n) - log_factorial(k) - log_factorial(n - k)) / std::numbers::ln2 / 8.0;
}

} // namespace

StepVerdicts::StepVerdicts(const TraceHead& head, VerdictBuilder& builder)
    : problem_(head.problem), builder_(builder), scales_(head) {
    builder.add_row(std::string(name(Phase::check)), "outcome");
    for (const ResultKind& kind : result_kinds)
        builder.add_row(std::string(name(phase_of(kind.result, problem_))), std::string(kind.name), true);
}

void StepVerdicts::add(const StepFindings& found) {
    builder_.begin_step(++step_);
    ++builder_.verdict.rows.front().compared;
    if (!found.halted.empty())
        return builder_.add_wrong(std::string(name(Phase::update)), "parameters", Divergence::all_ranks,
                                  "the reference stops here: " + found.halted);
    if (found.refused)
        return add_refused(found);
    judge_norm(found);
    // A wrong scale is reported, but the steps have been compared with it all the same.
    if (const std::string wrong = found.scale ? scales_.judge(*found.scale) : ""; !wrong.empty())
        builder_.add_wrong(std::string(name(Phase::exchange)), "exponent", Divergence::all_ranks, wrong);
    for (const ResultKind& kind : result_kinds)
        for (const Finding& finding : found.of(kind))
            if (Divergence* first = builder_.add(kind.name, finding))
                describe(kind, *first);
}

/// A part has no greater norm than the whole, apart from the rounding of a sum in fp32.
void StepVerdicts::judge_norm(const StepFindings& found) {
    if (!found.gradient || !found.gradient->recorded)
        return;
    const double part = std::sqrt(found.gradient->squares);
    const double whole = *found.gradient->recorded;
    if (!(part <= whole * (1.0 + 0x1p-12)))
        builder_.add_wrong(std::string(name(Phase::clip)), "norm", Divergence::all_ranks,
                           "the norm of the whole mean gradient is recorded as " + shortest(whole) +
                               ", and what this sample holds of it has " + shortest(part));
}

void StepVerdicts::describe(const ResultKind& kind, Divergence& divergence) const {
    if (kind.is_mask && divergence.rank == Divergence::all_ranks && divergence.index)
        for (const problem::Segment& segment : problem_.segments)
            if (*divergence.index >= segment.begin && *divergence.index < segment.end)
                divergence.rank = segment.owner;
    if (phase_of(kind.result, problem_) == Phase::clip && !divergence.between_ranks)
        divergence.note += std::string(divergence.note.empty() ? "" : "; ") +
                           "first_moment is M after clipping; record with --phases to separate exchange, "
                           "reconstruction and clip";
}

void StepVerdicts::add_refused(const StepFindings& found) {
    const reference::scape::RefusedStep& refused = *found.refused;
    bool changed = false;
    for (const ResultKind& kind : result_kinds)
        for (const Finding& finding : found.of(kind)) {
            builder_.draw(kind.name, finding);
            if (changed || finding.comparison.ok())
                continue;
            changed = true;
            // If the ranks differ, the wrong rank is more informative than the one that refused.
            const bool of_a_rank = is_replicated(kind) && finding.rank != Divergence::all_ranks;
            Divergence divergence{step_,
                                  std::string(name(Phase::check)),
                                  std::string(kind.name),
                                  refused.rank,
                                  refused.index,
                                  finding.comparison,
                                  std::string(refused.what()) + ". The trace shows changed " +
                                      std::string(kind.name) +
                                      (of_a_rank ? " of rank " + std::to_string(finding.rank) : "") +
                                      " after it" + (finding.note.empty() ? "" : "; " + finding.note),
                                  finding.between_ranks};
            if (of_a_rank) {
                divergence.rank = finding.rank;
                divergence.index = finding.comparison.first_wrong();
            }
            ++builder_.verdict.rows.front().mismatched;
            builder_.diverge(std::move(divergence));
        }
    if (!builder_.verdict.first)
        ++builder_.verdict.refused;
}

void Hints::ShiftCount::add(const MaskStepShift& one) {
    wrong += one.wrong;
    if (!one.shifted())
        return;
    explained += one.explained;
    coordinates += one.coordinates;
    ++steps;
}

bool Hints::ShiftCount::tells() const {
    return coordinates >= enough && scape::tells(wrong, explained);
}

std::string Hints::ShiftCount::count() const {
    return std::to_string(explained) + " of " + std::to_string(wrong) +
           " segments in which it is wrong, at " + count_of(steps, "step");
}

void Hints::see(const StepFindings& found, bool parted) {
    ++step_;
    early_.add(found.mask_shifts.early);
    late_.add(found.mask_shifts.late);
    // Later steps begin with wrong values already.
    if (parted && !told_)
        tell_scales(found);
    told_ = parted;
}

void Hints::tell_scales(const StepFindings& found) {
    bool any_times = false;
    bool any_divided = false;
    for (const ResultKind& kind : result_kinds) {
        Index wrong = 0;
        ScaleMatches scaled;
        for (const Finding& finding : found.of(kind)) {
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
            // Values made from it are scaled, too, and add nothing.
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
    scales_.push_back(std::string(kind.name) + " of step " + std::to_string(step_) + ": " +
                      std::to_string(scaled) + " of " + std::to_string(wrong) + " wrong values are " +
                      (level_.kind == LevelKind::exact ? "exactly " : "within their limits ") + factor +
                      (divided ? " of what they should be: " : " times what they should be: ") +
                      (of_all_ranks
                           ? divided ? "divided by the number of ranks twice?" : "a sum instead of a mean?"
                       : divided ? "divided by the number of ranks, where it is one rank's own?"
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

RunPlots::RunPlots(const TraceReader& trace)
    : trace_(trace), problem_(trace.head().problem), density_(trace.head().schedule()),
      gradient_(static_cast<std::size_t>(problem_.workers)),
      residual_(static_cast<std::size_t>(problem_.workers)) {
    for (const problem::Segment& segment : problem_.segments)
        selective_ += segment.always_dense ? 0 : segment.size();
}

void RunPlots::see(Index step, const StepFindings& found) {
    for (int rank = 0; rank < problem_.workers; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        gradient_[at].emplace_back(norm_of(trace_.gradient(step, rank)));
        const auto residual = trace_.values(kind_of(Result::residual), step, rank);
        residual_[at].push_back(residual ? std::optional(norm_of(*residual)) : std::nullopt);
    }
    clip_.push_back(found.gradient ? std::optional(std::min(1.0, problem_.settings.clip_norm /
                                                                     (found.gradient->norm() + 1e-6)))
                                   : std::nullopt);
    if (problem_.algorithm == problem::Algorithm::scape)
        see_mask(step);
}

void RunPlots::see_mask(Index step) {
    const bool any = selective_ > 0;
    asked_.push_back(any ? std::optional(density_.at(trace_.head().extent.begin + step)) : std::nullopt);
    const auto mask = trace_.mask(kind_of(Result::mask), step);
    if (!mask) {
        for (Values* values : {&kept_, &overlap_, &sent_values_, &sent_})
            values->emplace_back();
        before_.clear();
        return;
    }
    Index all = 0;
    Index kept = 0;
    Index both = 0;
    Index either = 0;
    double code = 0.0;
    for (const problem::Segment& segment : problem_.segments) {
        Index here = 0;
        for (Index i = segment.begin; i < segment.end; ++i) {
            const bool now = has_bit(*mask, i);
            here += now ? 1 : 0;
            if (segment.always_dense || before_.empty())
                continue;
            const bool before = has_bit(before_, i);
            both += now && before ? 1 : 0;
            either += now || before ? 1 : 0;
        }
        all += here;
        kept += segment.always_dense ? 0 : here;
        code += segment.always_dense ? 0.0 : least_mask_bytes(segment.size(), here);
    }
    const auto share = [](double part, double whole) {
        return whole > 0.0 ? std::optional(part / whole) : std::nullopt;
    };
    kept_.push_back(share(static_cast<double>(kept), static_cast<double>(selective_)));
    overlap_.push_back(share(static_cast<double>(both), static_cast<double>(either)));
    // Section 4: all ranks together send (P-1) x 4 bytes for each value on the mask, and as many
    // for its mean; AdamS does so for every value. P - 1 and the constants cancel in the quotient.
    const double dense = problem_.workers > 1 ? 8.0 * static_cast<double>(problem_.layout.size()) : 0.0;
    sent_values_.push_back(share(8.0 * static_cast<double>(all), dense));
    sent_.push_back(share(8.0 * static_cast<double>(all) + code, dense));
    before_ = *mask;
}

std::vector<CurveLine> RunPlots::by_rank(const std::vector<Values>& values) const {
    std::vector<CurveLine> lines;
    for (std::size_t rank = 0; rank < values.size(); ++rank)
        lines.push_back({"rank " + std::to_string(rank), values[rank]});
    return lines;
}

std::vector<Curve> RunPlots::curves() const {
    std::vector<Curve> curves{{"gradient norm", "The norm of each rank's gradient.", by_rank(gradient_)}};
    if (problem_.algorithm == problem::Algorithm::scape) {
        curves.push_back(
            {"residual norm", "The norm of what each rank holds back after the step.", by_rank(residual_)});
        curves.push_back({"density",
                          "The share of values on the mask, of the tensors that are not always dense.",
                          {{"asked for", asked_}, {"kept", kept_}}});
        curves.push_back(
            {"mask overlap",
             "The mask beside that of the step before (none at the first): both over either (Jaccard), of "
             "the tensors that are not always dense.",
             {{"overlap", overlap_}}});
    }
    if (problem_.settings.clip_norm > 0.0)
        curves.push_back(
            {"clip factor",
             "What the mean gradient is multiplied by, as the reference has it; 1: not clipped.",
             {{"factor", clip_}}});
    if (problem_.algorithm == problem::Algorithm::scape)
        curves.push_back({"compression",
                          "Bytes sent over those of dense AdamS, by section 4's formula; the mask at the "
                          "least that says which were chosen.",
                          {{"values", sent_values_}, {"values and mask", sent_}}});
    return curves;
}

} // namespace truestep::verify::scape

#include "watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace truestep::verify {

namespace {

double norm_of(const std::vector<float>& values) {
    double sum = 0.0;
    for (const float value : values)
        sum += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(sum);
}

bool has_bit(const std::vector<std::uint8_t>& mask, Index i) {
    return ((mask[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0;
}

/// log2 of the number of ways to choose k of n, in bytes: no code of a mask is shorter for all of them.
double least_mask_bytes(Index n, Index k) {
    const auto log_factorial = [](Index of) { return std::lgamma(static_cast<double>(of) + 1.0); };
    return (log_factorial(n) - log_factorial(k) - log_factorial(n - k)) / std::log(2.0) / 8.0;
}

} // namespace

Watch::Watch(const TraceReader& trace)
    : trace_(trace), problem_(trace.head().problem), density_(trace.head().schedule()),
      gradient_(static_cast<std::size_t>(problem_.workers)),
      residual_(static_cast<std::size_t>(problem_.workers)) {
    for (const ResultKind& kind : result_kinds)
        maps_.emplace_back(std::string(name(phase_of(kind.result, problem_))), std::string(kind.name),
                           trace.head().steps(), problem_.layout);
    for (const problem::Segment& segment : problem_.segments)
        selective_ += segment.always_dense ? 0 : segment.size();
}

void Watch::see(Index step, const StepFindings& found) {
    for (const ResultKind& kind : result_kinds)
        for (const Finding& finding :
             found.kinds[static_cast<std::size_t>(&kind - result_kinds.data())].findings)
            maps_[static_cast<std::size_t>(kind.result)].add(step, finding.comparison,
                                                             finding.between_ranks);
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

void Watch::see_mask(Index step) {
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
    // Section 4: all ranks together send (P-1) x 4 bytes for each value on the mask, and for each of its
    // mean; AdamS the same of every value. P - 1 and the constants go out of the quotient.
    const double dense = problem_.workers > 1 ? 8.0 * static_cast<double>(problem_.layout.size()) : 0.0;
    sent_values_.push_back(share(8.0 * static_cast<double>(all), dense));
    sent_.push_back(share(8.0 * static_cast<double>(all) + code, dense));
    before_ = *mask;
}

std::vector<CurveLine> Watch::by_rank(const std::vector<Values>& values) const {
    std::vector<CurveLine> lines;
    for (std::size_t rank = 0; rank < values.size(); ++rank)
        lines.push_back({"rank " + std::to_string(rank), values[rank]});
    return lines;
}

std::vector<Curve> Watch::curves() const {
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

} // namespace truestep::verify

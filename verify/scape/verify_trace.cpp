// Compares a trace of SCAPE or AdamS with the reference, whole or in pieces on several threads.
#include <truestep/verify/scape/verify_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "by_pieces.hpp"
#include "step_verdict.hpp"

namespace truestep::verify::scape {

namespace {

constexpr const char* recorded_state = "parameters, first_moment and residual of every rank";

std::string describe(const TraceHead& head) {
    const problem::Problem& problem = head.whole();
    return std::string(name(problem.algorithm)) + ", " + count_of(problem.workers, "worker") + ", " +
           count_of(head.steps(), "step") +
           (head.extent.begin > 0 ? " after step " + std::to_string(head.extent.begin) : "") + ", " +
           count_of(problem.layout.size(), "parameter") + " in " +
           count_of(problem.layout.tensors().size(), "tensor") +
           (problem.layout.param_groups() > 1
                ? " of " + std::to_string(problem.layout.param_groups()) + " parameter groups"
                : "") +
           ", " + count_of(problem.segments.size(), "segment") + ", bias correction " +
           std::string(name(problem.settings.bias_correction));
}

/// Adds notes on what a verdict on a part of a run does not cover.
void tell_extent(const TraceHead& head, std::vector<std::string>& notes) {
    const problem::Problem& whole = head.whole();
    if (head.sampled)
        notes.push_back("sampled: " + std::to_string(head.problem.layout.size()) + " of " +
                        count_of(whole.layout.size(), "coordinate") + ", " +
                        std::to_string(head.extent.sample.size()) + " of " +
                        count_of(whole.segments.size(), "segment") + " (" +
                        describe(head.extent.sample, whole) + "): errors elsewhere are not detected");
    if (!head.norm.empty())
        notes.emplace_back("the clip norm is taken from the trace, because a sample cannot determine it");
    if (!head.exponent.empty() && head.sampled)
        notes.emplace_back(
            "the payload's scale is taken from the trace; the sample only bounds it from below");
    else if (!head.exponent.empty() && head.extent.begin > 0)
        notes.emplace_back("the payload's scale of the first step is taken from the trace, because the "
                           "step before it determined it");
    const auto lowest = std::ranges::min_element(head.density);
    if (lowest != head.density.end() && *lowest < 1.0 && has_no_sparse_segment(whole))
        notes.push_back("every tensor is always dense, so that the masks select all coordinates although "
                        "the density is " +
                        shortest(*lowest) + ": this run proves nothing about sparse steps");
    if (head.extent.begin > 0)
        notes.push_back("the trace begins after step " + std::to_string(head.extent.begin) +
                        " of the run: the state at that point is taken from the trace; step 1 here is "
                        "step " +
                        std::to_string(head.extent.begin + 1));
}

/// Translates the places in a sample to places in the whole model.
void tell_places(const TraceHead& head, Divergence& divergence) {
    Comparison& comparison = divergence.comparison;
    const problem::Layout& held = head.problem.layout;
    const auto place = [&](Index& index) { // a mask may have bits beyond the last coordinate
        index = index < held.size() ? held.place(index) : head.whole().layout.size() + index - held.size();
    };
    for (auto* pairs : {&comparison.before, &comparison.first, &comparison.last})
        for (Pair& pair : *pairs)
            place(pair.index);
    if (comparison.greatest)
        place(comparison.greatest->index);
    if (divergence.index)
        place(*divergence.index);
}

/// Does the whole recorded state consist of bf16 numbers, as from an implementation that stores it
/// so?
bool keeps_bf16(const TraceReader& trace) {
    constexpr Index at_a_time = Index{1} << 16;
    const Index size = trace.head().problem.layout.size();
    bool any = false;
    for (Index step = 1; step <= trace.head().steps(); ++step)
        for (const Result result : {Result::parameters, Result::first_moment})
            for (Index begin = 0; begin < size; begin += at_a_time) {
                const trace::Window window{begin, std::min(size, begin + at_a_time)};
                for (const float value :
                     trace.values(kind_of(result), step, 0, window).value_or(std::vector<float>())) {
                    if (!Bf16Format::holds(static_cast<double>(value)))
                        return false;
                    any = any || value != 0.0F;
                }
            }
    return any;
}

void refuse_impossible(const TraceReader& trace, const VerifyOptions& options) {
    const problem::Problem& problem = trace.head().problem;
    if (options.level.kind == LevelKind::exact &&
        problem.settings.decay_order == problem::DecayOrder::together)
        throw Error(
            trace.path().string() +
            ": level EXACT is not available: section 5 fixes no arithmetic for decay_order 'together'; use "
            "--level rel");
    if (options.level.kind == LevelKind::bf16 && options.from == ReferenceStart::start)
        throw Error(
            trace.path().string() +
            ": level BF16 is not available with --from start: bf16 rounding grows from step to step "
            "until nothing is proved; use --from recorded");
    if (options.level.kind == LevelKind::bf16 && !trace.states_recorded())
        throw Error(trace.path().string() +
                    ": level BF16 is not available: it begins each step at the recorded state, and not "
                    "every step holds " +
                    recorded_state + "; record them");
}

template <class T>
std::vector<StepFindings> check_whole(const TraceReader& trace, ReferenceStart from,
                                      const VerifyOptions& options) {
    const TracePiece whole(trace, {0, trace.head().problem.layout.size()});
    TraceCheck<T> check(whole, from);
    std::vector<StepFindings> found;
    for (Index step = 1; step <= trace.head().steps(); ++step) {
        options.progress(step, trace.head().steps());
        found.push_back(check.next_step());
        if (!found.back().halted.empty())
            break;
    }
    return found;
}

/// Checks as independently as possible: separate pieces at once, or all pieces at each step.
template <class T>
std::vector<StepFindings> check_in_pieces(const TraceReader& trace, ReferenceStart from,
                                          const VerifyOptions& options) {
    const std::vector<trace::Window> pieces = pieces_of(trace, options.piece);
    if (pieces.size() == 1)
        return check_whole<T>(trace, from, options);
    const bool clips = trace.head().problem.settings.clip_norm > 0.0 && trace.head().norm.empty();
    try {
        if (!clips)
            return check_by_pieces<T>(trace, from, options, pieces);
    } catch (const NotByPieces&) {
        // A refused step concerns all pieces. Or see below.
    }
    try {
        return StepByStep<T>(trace, from, options, pieces).run();
    } catch (const NotByPieces&) {
        // A failing run, or ranks that differ.
    }
    return check_whole<T>(trace, from, options);
}

std::vector<StepFindings> check(const TraceReader& trace, ReferenceStart from,
                                const VerifyOptions& options) {
    switch (options.level.kind) {
    case LevelKind::exact:
        return check_in_pieces<float>(trace, from, options);
    case LevelKind::bf16:
        return check_in_pieces<BoundedBf16>(trace, from, options);
    default:
        return check_in_pieces<Bounded>(trace, from, options);
    }
}

} // namespace

TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options) {
    const TraceReader trace(path);
    refuse_impossible(trace, options);
    VerdictBuilder builder(trace, options, {describe(trace.head()), recorded_state});
    TraceVerdict& verdict = builder.verdict;
    verdict.layout = trace.head().whole().layout;
    StepVerdicts steps(trace.head(), builder);
    Hints hints(trace.head(), options.level);
    RunPlots plots(trace);
    Index step = 0;
    Index updates = 0;
    Index hidden = 0;
    for (const StepFindings& found : check(trace, verdict.from, options)) {
        steps.add(found);
        hints.see(found, verdict.first.has_value());
        if (options.look)
            plots.see(++step, found);
        updates += found.updates;
        hidden += found.hidden_updates;
    }
    if (options.look)
        verdict.seen.curves = plots.curves();
    if (verdict.first && trace.head().sampled)
        tell_places(trace.head(), *verdict.first);
    verdict.hints = hints.lines();
    tell_extent(trace.head(), verdict.notes);
    verdict.keeps_bf16 = builder.status() == Status::failed && keeps_bf16(trace);
    if (verdict.keeps_bf16 && options.level.kind != LevelKind::bf16)
        verdict.notes.emplace_back("every recorded parameter and moment fits bf16: for an optimizer that "
                                   "keeps its state in bf16 use --level bf16");
    if (options.level.kind == LevelKind::bf16 && hidden > 0)
        verdict.notes.push_back(
            std::to_string(hidden) + " of " + count_of(updates, "update") +
            " of a parameter are within its limit: if they were missing, that would not "
            "be detected; record with a larger learning rate");
    return builder.finish(
        "their gradients cancel to within rounding, so that no finite bound holds for the division by "
        "their size");
}

} // namespace truestep::verify::scape

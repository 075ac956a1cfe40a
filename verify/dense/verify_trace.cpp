// Compares a trace of dense training with the reference.
#include <truestep/verify/dense/traces.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "trace_check.hpp"
#include "verify_as.hpp"

namespace truestep::verify::dense {

namespace {

using verify::count_of;

std::string describe(const Problem& problem, Index steps) {
    std::string rules;
    for (const Group& group : problem.groups)
        rules += (rules.empty() ? "" : ", ") + std::string(name(group.rule));
    const problem::Layout layout = layout_of(problem);
    return "dense, " + count_of(problem.ranks, "rank") + ", " + count_of(steps, "step") + ", " +
           count_of(layout.size(), "parameter") + " in " + count_of(layout.tensors().size(), "tensor") +
           ", " + count_of(micro_batches_of(problem), "micro-batch") + ", order " +
           std::string(name(problem.order)) + ", rules " + rules;
}

constexpr const char* state_of_a_step = "parameters, and the moments that its rules have";

void refuse_impossible(const TraceReader& trace, const verify::VerifyOptions& options) {
    if (options.level.kind != verify::LevelKind::bf16)
        return;
    if (options.from == verify::ReferenceStart::start || !trace.states_recorded())
        throw Error(trace.path().string() +
                    ": level BF16 is not available: it begins each step at the recorded state, because "
                    "bf16 rounding grows from step to step; record " +
                    state_of_a_step + " at every step, and leave --from start out");
}

template <class T>
void check_steps(const TraceReader& trace, const Problem& problem, const std::vector<Result>& results,
                 const verify::VerifyOptions& options, verify::VerdictBuilder& builder) {
    TraceCheck<T> check(trace, problem, results, builder);
    const Index steps = trace.head().config.steps;
    for (Index step = 1; step <= steps; ++step) {
        options.progress(step, steps);
        if (!check.check(step))
            break;
    }
}

} // namespace

verify::TraceVerdict verify_as(const TraceReader& trace, const Problem& problem,
                               const verify::VerifyOptions& options, const std::vector<Result>& results) {
    verify::VerdictBuilder builder(trace, options,
                                   {describe(problem, trace.head().config.steps), state_of_a_step});
    builder.add_row("check", "outcome");
    for (const Result which : results)
        builder.add_row(result(which).phase, std::string(result(which).kind.name), true);
    if (options.level.kind == verify::LevelKind::exact)
        check_steps<float>(trace, problem, results, options, builder);
    else if (options.level.kind == verify::LevelKind::bf16)
        check_steps<verify::BoundedBf16>(trace, problem, results, options, builder);
    else
        check_steps<verify::Bounded>(trace, problem, results, options, builder);
    return builder.finish("rounding may move them by as much as they are, or by any amount: their second "
                          "moment may be zero, or Muon's matrix tiny in all directions");
}

verify::TraceVerdict verify_trace(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const TraceReader trace(path);
    refuse_impossible(trace, options);
    const Problem& problem = trace.head().config.problem;
    return verify_as(trace, problem, options, results_of(problem));
}

} // namespace truestep::verify::dense

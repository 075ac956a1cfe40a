// Property 13 of section 8 (its section 7): a run that stops and goes on, with as many workers or with
// others.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assertions.hpp"

namespace scape::properties {
namespace {

RC_GTEST_PROP(Restart, WithAsManyWorkersEqualsNeverHavingStopped, ()) {
    const Case run = *any_case();
    const Index stop = *one_of<Index>({0, 1, 2, 3, 4}).as("stop") % (run.steps + 1);
    classify(run);
    auto never_stopped = optimizer_of(run);
    take_steps(never_stopped, run, stop);

    // Into an optimizer that has been somewhere else, or the restored state would prove nothing.
    Case elsewhere = run;
    elsewhere.seed = run.seed + 1;
    auto restored = optimizer_of(elsewhere);
    take_steps(restored, elsewhere, 1);
    restored.state = reference::redistribute(never_stopped.state, run.workers);
    assert_same_bits("restored", run, never_stopped.state, restored.state);
    for (Index t = stop + 1; t <= run.steps + 1; ++t) {
        take_steps(never_stopped, run, t);
        take_steps(restored, run, t);
        assert_same_bits("step " + std::to_string(t), run, never_stopped.state, restored.state);
    }
    RC_CLASSIFY(stop > 0, "stopped on the way");
}

RC_GTEST_PROP(Restart, WithOtherWorkersConservesTheMeanResidual, ()) {
    const Case run = *exact_case();
    Case moved = run;
    moved.workers = *one_of<int>({1, 2, 3, 4, 5, 7, 8}).as("new workers");
    classify(run);
    RC_CLASSIFY(moved.workers < run.workers, "fewer");
    RC_CLASSIFY(moved.workers > run.workers, "more");
    auto optimizer = optimizer_of(run);
    take_steps(optimizer, run, (run.steps + 1) / 2);
    const ScapeState<float> before = optimizer.state;

    auto other = optimizer_of(moved);
    other.state = reference::redistribute(before, moved.workers);
    RC_ASSERT(other.state.e.size() == static_cast<std::size_t>(moved.workers));
    RC_ASSERT(other.state.step == before.step);
    RC_ASSERT(other.state.S == before.S);
    assert_same_bits("w", run, before.w, other.state.w);
    assert_same_bits("m", run, before.m, other.state.m);
    bool anything_to_conserve = false;
    for (Index index = 0; index < run.size(); ++index) {
        double sum_before = 0.0;
        for (const Vector<float>& residual : before.e)
            sum_before += static_cast<double>(residual[index]);
        double sum_after = 0.0;
        for (const Vector<float>& residual : other.state.e)
            sum_after += static_cast<double>(residual[index]);
        ASSERT_AT(before.step, index, sum_before * moved.workers == sum_after * run.workers);
        anything_to_conserve = anything_to_conserve || sum_before != 0.0;
    }
    RC_CLASSIFY(anything_to_conserve, "residuals that are not zero");

    // And the steps that follow go on conserving.
    while (other.state.step < run.steps) {
        const ScapeState<float> previous = other.state;
        const PerRank<float> g = gradients_of(moved, previous.step + 1);
        other.step(g, learning_rate);
        assert_conserved(moved, previous, g, other.state);
    }
}

} // namespace
} // namespace scape::properties

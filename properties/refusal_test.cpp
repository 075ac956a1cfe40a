// Property 11 of section 8: a refused step leaves all state as it was, and the next good step works.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assertions.hpp"

namespace scape::properties {
namespace {

RC_GTEST_PROP(Refusal, LeavesAllStateAsItWasAndTheNextGoodStepWorks, ()) {
    const Case run = *any_case();
    using Limits = std::numeric_limits<float>;
    const float value =
        *one_of<float>({Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                        Limits::max(), std::nextafter(0x1p56F, Limits::infinity()),
                        -std::nextafter(0x1p56F, Limits::infinity())})
             .as("value");
    const Index refused_step = *one_of<Index>({1, 2, 3, 4, 5}).as("refused step") % run.steps + 1;
    const std::uint64_t place =
        *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(0, 1'000'000)).as("place");
    const auto rank = static_cast<std::size_t>(place) % static_cast<std::size_t>(run.workers);
    const Index index = static_cast<Index>(place) % run.size();
    classify(run);

    auto optimizer = optimizer_of(run);
    auto undisturbed = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        if (t == refused_step) {
            PerRank<float> bad = gradients_of(run, t);
            bad[rank][index] = value;
            const ScapeState<float> before = optimizer.state;
            try {
                optimizer.step(bad, learning_rate);
                RC_FAIL("the step was taken");
            } catch (const reference::RefusedStep& refused) {
                RC_ASSERT(refused.rank == static_cast<int>(rank));
                RC_ASSERT(refused.index == index);
            }
            assert_same_bits("after the refusal", run, before, optimizer.state);
        }
        optimizer.step(gradients_of(run, t), learning_rate);
        undisturbed.step(gradients_of(run, t), learning_rate);
        assert_same_bits("step " + std::to_string(t), run, undisturbed.state, optimizer.state);
    }
}

} // namespace
} // namespace scape::properties

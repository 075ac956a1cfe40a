// Properties 2, 4 and 5 of section 8: what the mask holds, what lies on and off it, and when it is made.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assertions.hpp"

namespace scape::properties {
namespace {

/// Calls look(t, state before, step, state after) for every step of the run.
template <class Look>
void every_step(const Case& run, Look look) {
    auto optimizer = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        const ScapeStep<float> made = optimizer.step(gradients_of(run, t), learning_rate);
        look(t, before, made, optimizer.state);
    }
}

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

RC_GTEST_PROP(Mask, OffItTheMomentIsPlusZeroAndParametersOnlyDecay, ()) {
    const Case run = *any_case();
    classify(run);
    const auto decay = static_cast<float>(1.0 - learning_rate * run.weight_decay);
    every_step(run, [&](Index t, const auto& before, const auto& made, const auto& after) {
        for (const Index index : complement(made.S, run.size())) {
            ASSERT_AT(t, index, bits_of(after.m[index]) == 0U);
            ASSERT_AT(t, index, bits_of(after.w[index]) == bits_of(before.w[index] * decay));
        }
    });
}

RC_GTEST_PROP(Mask, OnItEveryResidualIsPlusZero, ()) {
    const Case run = *any_case();
    classify(run);
    every_step(run, [&](Index t, const auto&, const auto& made, const auto& after) {
        for (const Index index : made.S)
            for (const Vector<float>& residual : after.e)
                ASSERT_AT(t, index, bits_of(residual[index]) == 0U);
    });
}

/// The total order of section 5: the larger magnitude first, then the lower index.
std::pair<float, Index> priority(const Vector<float>& c, Index index) {
    return {std::abs(c[index]), -index};
}

void assert_chosen(const Case& run, const PerRank<float>& c, const Coordinates& S, double density) {
    RC_ASSERT(std::adjacent_find(S.begin(), S.end(), std::greater_equal<>()) == S.end());
    RC_ASSERT(!S.empty());
    RC_ASSERT(S.front() >= 0);
    RC_ASSERT(S.back() < run.size());
    for (const problem::Segment& segment : problem_of(run).segments) {
        const Vector<float>& c_owner = c[static_cast<std::size_t>(segment.owner)];
        Coordinates inside;
        std::copy_if(S.begin(), S.end(), std::back_inserter(inside),
                     [&](Index index) { return index >= segment.begin && index < segment.end; });
        const double product = density * static_cast<double>(segment.size());
        const Index k =
            segment.always_dense ? segment.size() : std::max<Index>(1, static_cast<Index>(product));
        RC_ASSERT(static_cast<Index>(inside.size()) == k);
        std::pair<float, Index> last_chosen{INFINITY, 0};
        for (const Index index : inside)
            last_chosen = std::min(last_chosen, priority(c_owner, index));
        for (Index index = segment.begin; index < segment.end; ++index)
            if (!std::binary_search(inside.begin(), inside.end(), index))
                RC_ASSERT(priority(c_owner, index) < last_chosen);
    }
}

RC_GTEST_PROP(Mask, HoldsOfEverySegmentTheFirstCoordinatesInItsOwnersOrder, ()) {
    const Case run = *any_case();
    classify(run);
    RC_CLASSIFY(run.data == verify::DataClass::ties, "ties");
    const auto density = schedule_of(run);
    every_step(run, [&](Index t, const auto& before, const auto& made, const auto&) {
        if (!before.S)
            assert_chosen(run, made.c, made.S, density.at(t));
        assert_chosen(run, made.c, made.next, density.at(t + 1));
    });
}

RC_GTEST_PROP(Mask, IsUsedOneStepAfterItWasMadeAndDependsOnNothingLater, ()) {
    const Case run = *any_case();
    Case other = run;
    other.seed = run.seed + 1;
    classify(run);
    bool changes = false;
    auto optimizer = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const Coordinates made = optimizer.step(gradients_of(run, t), learning_rate).next;
        auto with_other_gradients = optimizer;
        const auto next = with_other_gradients.step(gradients_of(other, t + 1), learning_rate);
        RC_ASSERT(next.S == made);
        auto without_gradients = optimizer;
        const PerRank<float> silence(static_cast<std::size_t>(run.workers),
                                     Vector<float>::Zero(run.size()));
        RC_ASSERT(without_gradients.step(silence, learning_rate).S == made);
        changes = changes || next.next != made;
    }
    RC_CLASSIFY(changes, "the mask changes");
}

} // namespace
} // namespace scape::properties

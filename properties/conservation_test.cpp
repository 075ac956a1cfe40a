// Properties 1, 7 and 12 of section 8: what went in comes out, from every rank.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assertions.hpp"

namespace scape::properties {
namespace {

RC_GTEST_PROP(Conservation, MomentAndMeanResidualHoldAllThatWentIn, ()) {
    const Case run = *exact_case();
    classify(run);
    auto optimizer = optimizer_of(run);
    bool leaves_the_mask = false;
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        const PerRank<float> g = gradients_of(run, t);
        const ScapeStep<float> made = optimizer.step(g, learning_rate);
        for (const Index index : complement(made.S, run.size()))
            leaves_the_mask = leaves_the_mask || before.m[index] != 0.0F;
        assert_conserved(run, before, g, optimizer.state);
    }
    RC_CLASSIFY(leaves_the_mask, "a moment moves into the residual");
}

RC_GTEST_PROP(Conservation, HoldsWithinItsRoundingsOnAnyData, ()) {
    const Case run = *unclipped_case();
    classify(run);
    const auto b1 = static_cast<double>(static_cast<float>(run.betas.first));
    const auto a1 = static_cast<double>(static_cast<float>(1.0 - run.betas.first));
    auto optimizer = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        const PerRank<float> g = gradients_of(run, t);
        optimizer.step(g, learning_rate);
        for (Index index = 0; index < run.size(); ++index) {
            double went_in = 0.0;
            double came_out = 0.0;
            double magnitude = 0.0;
            for (std::size_t rank = 0; rank < g.size(); ++rank) {
                const double from_moment = b1 * static_cast<double>(before.m[index]);
                const double from_gradient = a1 * static_cast<double>(g[rank][index]);
                const auto from_residual = static_cast<double>(before.e[rank][index]);
                went_in += from_moment + from_gradient + from_residual;
                magnitude += std::abs(from_moment) + std::abs(from_gradient) + std::abs(from_residual);
                came_out += static_cast<double>(optimizer.state.m[index]) +
                            static_cast<double>(optimizer.state.e[rank][index]);
            }
            // Of every c a product, two sums and the other product; P - 1 sums of them and a division. What
            // underflows adds half a unit of the smallest number each time, P times in the division.
            const double roundings = 4.0 + run.workers;
            const double bound = 0x1p-24 * roundings * magnitude * 1.001 + 0x1p-149 * 4.0 * run.workers;
            ASSERT_AT(t, index, std::abs(came_out - went_in) <= bound);
        }
    }
}

RC_GTEST_PROP(Conservation, OneSilentRankStillCountsInTheMean, ()) {
    const Case run = *exact_case();
    const auto silent = *one_of<std::size_t>({0, 1, 2, 3, 4, 5, 6, 7}).as("silent rank") %
                        static_cast<std::size_t>(run.workers);
    classify(run);
    auto optimizer = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        PerRank<float> g = gradients_of(run, t);
        g[silent].setZero();
        optimizer.step(g, learning_rate);
        assert_conserved(run, before, g, optimizer.state);
    }
}

RC_GTEST_PROP(Conservation, EveryRankCountsOnTheMaskAndNowhereElse, ()) {
    const Case run = *exact_case();
    const auto place = *one_of<std::size_t>({0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89}).as("place on the mask");
    classify(run);
    auto optimizer = optimizer_of(run);
    take_steps(optimizer, run, run.steps); // so that the mask does not depend on what is perturbed
    const Coordinates S = *optimizer.state.S;
    RC_ASSERT(!S.empty());
    const Index chosen = S[place % S.size()];
    const PerRank<float> g = gradients_of(run, run.steps + 1);
    auto undisturbed = optimizer;
    undisturbed.step(g, learning_rate);
    for (std::size_t rank = 0; rank < g.size(); ++rank) {
        PerRank<float> perturbed = g;
        perturbed[rank][chosen] += static_cast<float>(run.workers);
        auto disturbed = optimizer;
        disturbed.step(perturbed, learning_rate);
        Vector<float> expected = undisturbed.state.m;
        expected[chosen] += static_cast<float>(1.0 - run.betas.first);
        assert_same_bits("m with rank " + std::to_string(rank) + " perturbed", run, expected,
                         disturbed.state.m);
        assert_same_bits("e with rank " + std::to_string(rank) + " perturbed", run, undisturbed.state.e,
                         disturbed.state.e);
    }
}

} // namespace
} // namespace scape::properties

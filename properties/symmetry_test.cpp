// Property 8 of section 8: neither the order of the ranks nor a power of two in the data decides anything.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assertions.hpp"

namespace scape::properties {
namespace {

template <class Value>
std::vector<Value> permuted(const std::vector<Value>& values, const std::vector<std::size_t>& order) {
    std::vector<Value> result;
    for (const std::size_t place : order)
        result.push_back(values[place]);
    return result;
}

RC_GTEST_PROP(Symmetry, AnyOrderOfTheRanksGivesTheSameBitsWhereSumsAreExact, ()) {
    const Case run = *exact_case();
    std::vector<std::size_t> order(static_cast<std::size_t>(run.workers));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::size_t number =
        *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, 40320)).as("permutation");
    for (std::size_t left = order.size(); left > 1; number /= left, --left)
        std::swap(order[left - 1], order[number % left]);
    classify(run);
    RC_CLASSIFY(!std::is_sorted(order.begin(), order.end()), "another order");

    problem::Problem problem = problem_of(run);
    for (problem::Segment& segment : problem.segments) {
        const auto old_owner = static_cast<std::size_t>(segment.owner);
        segment.owner = static_cast<int>(std::find(order.begin(), order.end(), old_owner) - order.begin());
    }
    auto optimizer = optimizer_of(run);
    reference::Scape<float> other(problem, schedule_of(run), parameters_of(run));
    for (Index t = 1; t <= run.steps; ++t) {
        const PerRank<float> g = gradients_of(run, t);
        optimizer.step(g, learning_rate);
        other.step(permuted(g, order), learning_rate);
        ScapeState<float> expected = optimizer.state;
        expected.e = permuted(expected.e, order);
        assert_same_bits("step " + std::to_string(t), run, expected, other.state);
    }
}

RC_GTEST_PROP(Symmetry, ScalingGradientsByAPowerOfTwoScalesMomentAndResiduals, ()) {
    Case run = *unclipped_case();
    // Away from overflow and subnormals.
    using verify::DataClass;
    run.data =
        *one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::ties, DataClass::sparse})
             .as("data");
    const int exponent = *one_of<int>({1, -1, 4, -4, 13, -13, 30, -30}).as("exponent");
    classify(run);
    const float scale = std::ldexp(1.0F, exponent);
    auto optimizer = optimizer_of(run);
    auto other = optimizer_of(run);
    for (Index t = 1; t <= run.steps; ++t) {
        PerRank<float> g = gradients_of(run, t);
        optimizer.step(g, learning_rate);
        for (Vector<float>& of_rank : g)
            of_rank = of_rank * scale;
        other.step(g, learning_rate);
        RC_ASSERT(other.state.S == optimizer.state.S);
        assert_same_bits("m", run, optimizer.state.m * scale, other.state.m);
        for (std::size_t rank = 0; rank < g.size(); ++rank)
            assert_same_bits("e", run, optimizer.state.e[rank] * scale, other.state.e[rank]);
    }
}

} // namespace
} // namespace scape::properties

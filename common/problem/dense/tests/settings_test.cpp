// Dealing by role, groups, and splits that an order allows: section 34 and 35.
#include <cmath>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/dense/settings.hpp>

namespace truestep::problem::dense {
namespace {

Problem problem() {
    Problem made;
    made.tensors = {{"wq", {8, 5}, "matrix"}, {"norm", {5}, "vector"}, {"scale", {}, "vector"}};
    made.groups = {group_of(Rule::muon, {"matrix"}), group_of(Rule::adamw, {"vector", "embedding"})};
    return made;
}

std::string refusal(const std::function<void(Problem&)>& change) {
    Problem made = problem();
    change(made);
    try {
        check(made);
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
        return error.what();
    }
    return "";
}

TEST(DenseProblem, DealsTensorsToGroupsByTheirRoleAlone) {
    Problem made = problem();
    EXPECT_EQ(refusal([](Problem&) {}), "");
    EXPECT_THAT(groups_of(made), testing::ElementsAre(0, 1, 1));
    made.tensors[1].shape = {5, 1};
    made.tensors[0].shape = {40};
    EXPECT_THAT(groups_of(made), testing::ElementsAre(0, 1, 1));
    const Layout layout = layout_of(made);
    EXPECT_EQ(layout.size(), 46);
    EXPECT_EQ(layout.tensors()[2].param_group, 1);
}

TEST(DenseProblem, RefusesInOneLineThatSaysWhatToDo) {
    using testing::HasSubstr;
    EXPECT_THAT(refusal([](Problem& p) { p.tensors[0].role = ""; }), HasSubstr("tensor wq has no role"));
    EXPECT_THAT(refusal([](Problem& p) { p.tensors[1].role = "bias"; }),
                HasSubstr("tensor norm has the role 'bias', which no group takes"));
    EXPECT_THAT(refusal([](Problem& p) { p.tensors[0].role = "vector"; }),
                HasSubstr("group 0 (muon, roles matrix) has no tensor"));
    EXPECT_THAT(refusal([](Problem& p) { p.groups[1].roles.emplace_back("matrix"); }),
                HasSubstr("role 'matrix' stands in two places"));
    EXPECT_THAT(refusal([](Problem& p) { p.tensors[0].shape = {40}; }),
                HasSubstr("tensor wq has shape 40, and its role puts it into group 0 (muon, roles matrix), "
                          "which takes matrices of two extents"));
    EXPECT_THAT(refusal([](Problem& p) {
                    p.tensors[0].shape = {Index{1} << 40, Index{1} << 40};
                }),
                HasSubstr("wq"));
    EXPECT_THAT(refusal([](Problem& p) {
                    p.micro_batches = {1, 2};
                }),
                HasSubstr("micro_batches has 2 numbers, and there are 1 ranks"));
    EXPECT_THAT(refusal([](Problem& p) { p.groups[1].beta2 = 1.0; }),
                HasSubstr("group 1 (adamw, roles vector, embedding): beta2 is 1; it must be in [0, 1)"));
    EXPECT_THAT(refusal([](Problem& p) {
                    p.groups[1] = group_of(Rule::sgd, {"vector"});
                    p.groups[1].nesterov = true;
                }),
                HasSubstr("nesterov needs a momentum above 0"));
    EXPECT_THAT(refusal([](Problem& p) { p.groups[0].iterations = 100; }), HasSubstr("from 1 to 99"));
    // A matrix of zeros is divided by epsilon, in the format of the iteration.
    const auto tiny = [](Iteration iteration, double epsilon) {
        return refusal([&](Problem& p) {
            p.groups[0].iteration = iteration;
            p.groups[0].epsilon = epsilon;
        });
    };
    EXPECT_EQ(tiny(Iteration::fp32, 0x1p-140), "");
    EXPECT_THAT(
        tiny(Iteration::bf16, 0x1p-134),
        HasSubstr("epsilon is 4.591774807899561e-41; it must be more than 0, as a bf16 number too"));
    EXPECT_EQ(tiny(Iteration::bf16, 0x1.000002p-134), "");
}

TEST(DenseProblem, TheTreeAllowsSplitsWhoseSharesAreItsNodes) {
    const auto split = [](std::vector<int> counts) {
        return refusal([&](Problem& p) {
            p.order = Order::tree;
            p.ranks = static_cast<int>(counts.size());
            p.micro_batches = counts;
        });
    };
    for (const std::vector<int>& allowed :
         {std::vector<int>{3}, {6}, {4, 4}, {2, 2, 2}, {1, 1, 2, 4}, {4, 1}, {8, 4, 1}, {1, 1, 1, 1, 1}})
        EXPECT_EQ(split(allowed), "");
    EXPECT_EQ(split({3, 3}),
              "order tree does not allow this split: rank 0 has micro-batches 0 to 2 of 6, which are no "
              "node of the tree; give each rank the same power of two, or use order rank");
    for (const std::vector<int>& other : {std::vector<int>{1, 2}, {1, 4}, {6, 2}, {4, 3, 1}})
        EXPECT_NE(split(other), "");
    EXPECT_EQ(refusal([](Problem& p) {
                  p.ranks = 2;
                  p.micro_batches = {1, 2};
              }),
              "");
}

/// The nodes of the tree over [begin, end), by its recursion.
void nodes_of(Index begin, Index end, std::set<std::pair<Index, Index>>& nodes) {
    nodes.emplace(begin, end);
    Index left = 1;
    while (2 * left < end - begin)
        left *= 2;
    if (end - begin > 1) {
        nodes_of(begin, begin + left, nodes);
        nodes_of(begin + left, end, nodes);
    }
}

TEST(DenseProblem, NodesAreThoseOfTheTreesRecursion) {
    for (Index leaves = 1; leaves <= 33; ++leaves) {
        std::set<std::pair<Index, Index>> nodes;
        nodes_of(0, leaves, nodes);
        for (Index begin = 0; begin < leaves; ++begin)
            for (Index end = begin + 1; end <= leaves; ++end)
                EXPECT_EQ(is_node(begin, end, leaves), nodes.contains({begin, end}))
                    << begin << " to " << end << " of " << leaves;
    }
}

TEST(DenseProblem, TheSumIsDividedByMicroBatchesOrByRanks) {
    Problem made = problem();
    made.ranks = 3;
    made.micro_batches = {2, 1, 4};
    EXPECT_EQ(micro_batches_of(made), 7);
    EXPECT_EQ(divisor_of(made), 7);
    made.accumulation = Accumulation::sum;
    EXPECT_EQ(divisor_of(made), 3);
}

TEST(DenseProblem, EachRuleHasItsMomentsAndDecay) {
    struct Expected {
        bool adam, coupled, first_moment, first_moment_with_momentum;
    };
    const std::vector<std::pair<Rule, Expected>> all{{Rule::sgd, {false, true, false, true}},
                                                     {Rule::adam, {true, true, true, true}},
                                                     {Rule::adamw, {true, false, true, true}},
                                                     {Rule::muon, {false, false, true, true}}};
    for (const auto& [rule, expected] : all) {
        EXPECT_EQ(is_adam(rule), expected.adam) << name(rule);
        EXPECT_EQ(is_coupled(rule), expected.coupled) << name(rule);
        Group group{.rule = rule};
        EXPECT_EQ(has_first_moment(group), expected.first_moment) << name(rule);
        group.momentum = 0.5;
        EXPECT_EQ(has_first_moment(group), expected.first_moment_with_momentum) << name(rule);
    }
}

TEST(DenseProblem, ChoicesHaveWords) {
    EXPECT_EQ(parse<Rule>("adamw"), Rule::adamw);
    EXPECT_EQ(name(Order::tree), "tree");
    EXPECT_THAT(words(Scale::none),
                testing::ElementsAre("scale", "original", "match_rms_adamw", "spectral_unclamped", "none"));
    EXPECT_THAT([] { static_cast<void>(parse<Iteration>("fp16")); },
                testing::ThrowsMessage<Error>("iteration is 'fp16'; it must be one of fp32, bf16"));
}

TEST(DenseProblem, EachGroupHasARate) {
    EXPECT_NO_THROW(check_rates(problem(), {0.0, 0.1}));
    for (const std::vector<double>& wrong :
         {std::vector<double>{0.1}, {0.1, -0.1}, {0.1, std::nan("")}, {0.1, 0.1, 0.1}})
        EXPECT_THROW(check_rates(problem(), wrong), Error);
}

TEST(DenseProblem, ScalesByShape) {
    EXPECT_EQ(rate_factor(Scale::original, 8, 2), 2.0);
    EXPECT_EQ(rate_factor(Scale::original, 9, 4), 1.5);
    EXPECT_EQ(rate_factor(Scale::original, 2, 8), 1.0);
    EXPECT_EQ(rate_factor(Scale::match_rms_adamw, 4, 16), 0.8);
    EXPECT_EQ(rate_factor(Scale::spectral_unclamped, 2, 8), 0.5);
    EXPECT_EQ(rate_factor(Scale::none, 2, 8), 1.0);
}

} // namespace
} // namespace truestep::problem::dense

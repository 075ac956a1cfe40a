// Dealing by role, groups, and splits that an order allows: section 34 and 35.
#include <functional>

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

TEST(DenseProblem, ScalesByShape) {
    EXPECT_EQ(rate_factor(Scale::original, 8, 2), 2.0);
    EXPECT_EQ(rate_factor(Scale::original, 2, 8), 1.0);
    EXPECT_EQ(rate_factor(Scale::match_rms_adamw, 4, 16), 0.8);
    EXPECT_EQ(rate_factor(Scale::spectral_unclamped, 2, 8), 0.5);
    EXPECT_EQ(rate_factor(Scale::none, 2, 8), 1.0);
}

} // namespace
} // namespace truestep::problem::dense

// The reference of dense training against values worked out by hand, and against itself.
#include <cmath>

#include <Eigen/SVD>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/reference/dense/reference.hpp>

namespace truestep::reference::dense {
namespace {

Problem one_group(const Group& group, std::vector<Index> shape = {2}) {
    Problem made;
    Group mine = group;
    mine.roles = {"all"};
    made.groups = {mine};
    made.tensors = {{"w", std::move(shape), "all"}};
    return made;
}

template <class T = float>
Vector<T> vector(std::initializer_list<double> values) {
    Vector<T> made(static_cast<Index>(values.size()));
    Index i = 0;
    for (const double value : values)
        made[i++] = T(value);
    return made;
}

Gradients<float> alone(const Vector<float>& g) {
    return {{g}};
}

/// Some values that no sum of which is exact.
Vector<float> drawn(Index size, unsigned seed) {
    Vector<float> made(size);
    unsigned state = seed * 2654435761U + 12345U;
    for (Index i = 0; i < size; ++i) {
        state = state * 1664525U + 1013904223U;
        made[i] = static_cast<float>(static_cast<double>(state) / 4294967296.0 - 0.5);
    }
    return made;
}

TEST(DenseReference, SgdDampensFromTheSecondStepOnAndDecaysThroughTheGradient) {
    Group sgd = group_of(Rule::sgd, {});
    sgd.momentum = 0.5;
    sgd.dampening = 0.25;
    sgd.weight_decay = 0.5;
    Reference<float> run(one_group(sgd), vector({1.0, 0.0}));
    run.step(alone(vector({1.0, 2.0})), {0.5});
    EXPECT_EQ(run.state.m[0], 1.5F); // g + wd w, not dampened
    EXPECT_EQ(run.state.w[0], 0.25F);
    run.step(alone(vector({1.0, 2.0})), {0.5});
    EXPECT_EQ(run.state.m[0], 0.5F * 1.5F + 0.75F * 1.125F);
    EXPECT_EQ(run.state.w[1], -1.0F - 0.5F * (0.5F * 2.0F + 0.75F * (2.0F + 0.5F * -1.0F)));
}

TEST(DenseReference, NesterovLooksAhead) {
    Group sgd = group_of(Rule::sgd, {});
    sgd.momentum = 0.5;
    sgd.nesterov = true;
    Reference<float> run(one_group(sgd), vector({0.0, 0.0}));
    run.step(alone(vector({1.0, 2.0})), {1.0});
    EXPECT_EQ(run.state.w[1], -3.0F); // g + mu g
}

TEST(DenseReference, AdamAndAdamWDifferInThePlaceOfDecayAlone) {
    for (const double decay : {0.0, 0.1}) {
        Group adam = group_of(Rule::adam, {});
        adam.weight_decay = decay;
        Group adamw = adam;
        adamw.rule = Rule::adamw;
        Reference<float> a(one_group(adam, {20}), drawn(20, 1));
        Reference<float> b(one_group(adamw, {20}), drawn(20, 1));
        for (unsigned t = 2; t < 5; ++t) {
            a.step(alone(drawn(20, t)), {0.01});
            b.step(alone(drawn(20, t)), {0.01});
        }
        EXPECT_EQ((a.state.w == b.state.w).all(), decay == 0.0);
        EXPECT_EQ((a.state.m == b.state.m).all(), decay == 0.0);
    }
}

TEST(DenseReference, EpsilonBeforeTheCorrectionCountsLess) {
    Group after = group_of(Rule::adamw, {});
    after.epsilon = 0.5;
    after.weight_decay = 0.0;
    Group before = after;
    before.epsilon_place = EpsilonPlace::uncorrected;
    // At t = 1: u = g / (|g| + eps), and with 1/sqrt(1 - beta2) on eps.
    Reference<double> a(one_group(after), vector<double>({0.0, 0.0}));
    Reference<double> b(one_group(before), vector<double>({0.0, 0.0}));
    a.step({{vector<double>({1.0, 2.0})}}, {1.0});
    b.step({{vector<double>({1.0, 2.0})}}, {1.0});
    EXPECT_NEAR(a.state.w[0], -1.0 / 1.5, 1e-12);
    EXPECT_NEAR(b.state.w[0], -1.0 / (1.0 + 0.5 / std::sqrt(0.001)), 1e-12);
}

Gradients<float> split(const std::vector<Vector<float>>& all, const std::vector<int>& counts) {
    Gradients<float> made;
    auto next = all.begin();
    for (const int count : counts) {
        made.emplace_back(next, next + count);
        next += count;
    }
    return made;
}

TEST(DenseReference, TheTreesBitsDoNotDependOnTheRanks) {
    std::vector<Vector<float>> all;
    for (unsigned i = 0; i < 8; ++i)
        all.push_back(drawn(200, i + 7));
    const auto mean = [&](Order order, std::vector<int> counts) {
        Problem made = one_group(group_of(Rule::sgd, {}), {200});
        made.order = order;
        made.ranks = static_cast<int>(counts.size());
        made.micro_batches = counts;
        return mean_of(made, split(all, counts));
    };
    const Vector<float> tree = mean(Order::tree, {8});
    EXPECT_TRUE(
        (tree ==
         ((((all[0] + all[1]) + (all[2] + all[3])) + ((all[4] + all[5]) + (all[6] + all[7]))) / 8.0F))
            .all());
    for (const std::vector<int>& counts :
         {std::vector<int>{4, 4}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {2, 1, 1, 4}}) {
        EXPECT_TRUE((mean(Order::tree, counts) == tree).all());
        EXPECT_FALSE((mean(Order::rank, counts) == mean(Order::rank, {8})).all() && counts.size() < 8);
    }
}

TEST(DenseReference, SumDividesByTheRanks) {
    Problem made = one_group(group_of(Rule::sgd, {}));
    made.ranks = 2;
    made.micro_batches = {2, 2};
    const Gradients<float> ones(2, PerRank<float>(2, vector({1.0, 1.0})));
    EXPECT_EQ(mean_of(made, ones)[0], 1.0F);
    made.accumulation = Accumulation::sum;
    EXPECT_EQ(mean_of(made, ones)[0], 2.0F);
}

TEST(DenseReference, ClipsByTheNormOfAllTensors) {
    Problem made = one_group(group_of(Rule::sgd, {}), {1});
    made.tensors.push_back({"b", {1}, "all"});
    made.clip_norm = 2.5;
    Reference<double> run(made, vector<double>({0.0, 0.0}));
    const Step<double> step = run.step({{vector<double>({3.0, 4.0})}}, {1.0});
    EXPECT_NEAR(step.ghat[0], 1.5, 1e-6);
    EXPECT_EQ(step.M[0], 3.0);
    EXPECT_EQ(run.step({{vector<double>({0.3, 0.4})}}, {1.0}).ghat[1], 0.4);
}

TEST(DenseReference, NormsBlocksEndWithTheirTensor) {
    Problem made = one_group(group_of(Rule::sgd, {}), {5});
    made.tensors.push_back({"b", {300}, "all"});
    const Vector<float> g = drawn(305, 3);
    const problem::Layout layout = layout_of(made);
    scape::NormOfParts<double> a;
    scape::NormOfParts<double> b;
    a.add(Vector<float>(g.head(5)));
    b.add(Vector<float>(g.tail(300)));
    const double first = a.norm(problem::NormVersion::tree);
    const double second = b.norm(problem::NormVersion::tree);
    EXPECT_NEAR(GlobalNorm<float>::of(g, layout), std::hypot(first, second), 1e-15);
}

TEST(DenseReference, ASkippedStepChangesNothing) {
    Reference<float> run(one_group(group_of(Rule::adamw, {})), vector({1.0, 2.0}));
    run.step(alone(vector({1.0, 1.0})), {0.1});
    const State<float> before = run.state;
    EXPECT_THROW(run.step(alone(vector({1.0, std::nan("")})), {0.1}), scape::RefusedStep);
    EXPECT_EQ(run.state.step, 1);
    EXPECT_TRUE((run.state.w == before.w).all() && (run.state.m == before.m).all() &&
                (run.state.v == before.v).all());
}

Group muon(Orthogonalization table = Orthogonalization::newton_schulz) {
    Group made = group_of(Rule::muon, {});
    made.orthogonalization = table;
    return made;
}

TEST(DenseReference, OrthogonalizesWideAndTallMatricesAlike) {
    const Vector<float> u = drawn(24, 5);
    const Matrix<float> wide = Eigen::Map<const Matrix<float>>(u.data(), 4, 6);
    for (const auto table : {Orthogonalization::newton_schulz, Orthogonalization::polar_express})
        for (const auto iteration : {Iteration::fp32, Iteration::bf16}) {
            Group group = muon(table);
            group.iteration = iteration;
            group.iterations = table == Orthogonalization::newton_schulz ? 5 : 9;
            const Matrix<float> O = Orthogonalizer<float>::of(group, wide);
            EXPECT_TRUE(Orthogonalizer<float>::of(group, mapl::transposed(wide)) == mapl::transposed(O));
            const auto values = Eigen::JacobiSVD<Eigen::MatrixXf>(O).singularValues();
            const bool loose = table == Orthogonalization::newton_schulz;
            EXPECT_GT(values.minCoeff(), loose ? 0.65F : 0.97F);
            EXPECT_LT(values.maxCoeff(), loose ? 1.2F : 1.03F);
        }
    EXPECT_TRUE(Orthogonalizer<float>::of(muon(), Matrix<float>::Zero(3, 4)) == Matrix<float>::Zero(3, 4));
}

TEST(DenseReference, MuonScalesTheRateAndNotTheDecay) {
    Group group = muon();
    group.scale = Scale::match_rms_adamw;
    Reference<double> run(one_group(group, {4, 9}), Vector<double>::Ones(36));
    const Vector<double> g = drawn(36, 9).cast<double>();
    const Step<double> step = run.step({{g}}, {0.5});
    const Vector<double> expected = (1.0 - 0.5 * 0.1) - 0.5 * 0.2 * 3.0 * step.O;
    EXPECT_LT((run.state.w - expected).abs().maxCoeff(), 1e-14);
    EXPECT_LT((run.state.m - 0.05 * g).abs().maxCoeff(), 1e-14);
}

} // namespace
} // namespace truestep::reference::dense

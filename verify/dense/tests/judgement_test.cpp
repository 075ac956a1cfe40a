// The limits of section 38 for Muon's matrices: right runs stay well within them, wrong ones do not.
#include <random>

#include <gtest/gtest.h>

#include <truestep/verify/dense/judgement.hpp>

namespace truestep::verify::dense {
namespace {

using FloatMatrix = Matrix<float>;
using problem::Index;

/// Matrices of the kinds that momenta are: full, of low rank, constant, with few values.
FloatMatrix drawn(Index rows, Index columns, int kind, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto full = [&](Index m, Index n) {
        return FloatMatrix(FloatMatrix::NullaryExpr(m, n, [&] { return normal(random); }));
    };
    switch (kind) {
    case 0:
        return full(rows, columns);
    case 1:
        return full(rows, 2) * full(2, columns) + 1e-3F * full(rows, columns);
    case 2:
        return FloatMatrix::Constant(rows, columns, 0.3F);
    case 3:
        return full(rows, columns).unaryExpr([](float x) { return std::round(2.0F * x) / 2.0F; });
    default:
        break;
    }
    FloatMatrix one = FloatMatrix::Zero(rows, columns);
    one(rows / 2, columns / 3) = 0.7F;
    return one;
}

Judgement::Distance distance(const Group& claimed, const Group& followed, const FloatMatrix& U) {
    const Judgement judgement = judge(claimed, U.cast<double>());
    EXPECT_TRUE(judgement.proves || claimed.iteration == Iteration::bf16);
    const FloatMatrix O = Orthogonalizer<float>::of(followed, U);
    return judgement.greatest(O.cast<double>() - judgement.O);
}

TEST(DenseJudgement, RightRunsStayWellWithinTheirLimits) {
    for (const auto& [rows, columns] :
         {std::pair<Index, Index>{1, 1}, {1, 9}, {8, 5}, {5, 12}, {24, 64}, {48, 16}})
        for (int kind = 0; kind < 5; ++kind)
            for (unsigned seed = 1; seed <= 2; ++seed)
                for (const auto table :
                     {Orthogonalization::newton_schulz, Orthogonalization::polar_express})
                    for (const auto iteration : {Iteration::fp32, Iteration::bf16}) {
                        Group group = group_of(Rule::muon, {});
                        group.orthogonalization = table;
                        group.iteration = iteration;
                        const auto [off, limit] = distance(group, group, drawn(rows, columns, kind, seed));
                        EXPECT_LE(off, (iteration == Iteration::fp32 ? 0.1 : 0.6) * limit)
                            << rows << "x" << columns << " kind " << kind << " seed " << seed << " "
                            << name(table) << " " << name(iteration);
                    }
}

TEST(DenseJudgement, WrongRunsDoNot) {
    const FloatMatrix U = drawn(24, 64, 0, 1);
    for (const auto iteration : {Iteration::fp32, Iteration::bf16}) {
        Group right = group_of(Rule::muon, {});
        right.iteration = iteration;
        Group wrong = right;
        wrong.iterations = 4;
        EXPECT_FALSE(distance(right, wrong, U).ok());
        wrong = right;
        wrong.orthogonalization = Orthogonalization::polar_express;
        EXPECT_FALSE(distance(right, wrong, U).ok());
        wrong = right;
        wrong.coefficients[0] = 2.0;
        EXPECT_FALSE(distance(right, wrong, U).ok());
        const Judgement judgement = judge(right, U.cast<double>());
        const Matrix<double> O = Orthogonalizer<float>::of(right, U).cast<double>();
        EXPECT_FALSE(
            judgement.greatest((iteration == Iteration::fp32 ? 0.999 : 0.6) * O - judgement.O).ok());
        EXPECT_FALSE(judgement.greatest(-judgement.O).ok()) << "without an update";
        Matrix<double> pieces = O; // each half orthogonalized by itself
        pieces.topRows(12) = Orthogonalizer<float>::of(right, U.topRows(12)).cast<double>();
        pieces.bottomRows(12) = Orthogonalizer<float>::of(right, U.bottomRows(12)).cast<double>();
        EXPECT_FALSE(judgement.greatest(pieces - judgement.O).ok());
    }
    Group rough = group_of(Rule::muon, {});
    rough.iteration = Iteration::bf16;
    EXPECT_FALSE(distance(group_of(Rule::muon, {}), rough, U).ok()) << "bf16 is not fp32";
}

} // namespace
} // namespace truestep::verify::dense

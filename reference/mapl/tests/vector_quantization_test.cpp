// Tests Z as indices of codewords (section 23.1) against values worked out by hand.
#include <algorithm>

#include <gtest/gtest.h>

#include <truestep/reference/mapl/vector_quantization.hpp>

#include "support.hpp"

namespace truestep::reference::mapl {
namespace {

using testing::drawn;
using testing::Real;

Settings settings(const Quantization& of, Index rank) {
    Settings made{.width = rank, .rank = rank, .quantization = of};
    check(made);
    return made;
}

Quantizer<double> quantizer(const Settings& of, const std::vector<float>& words) {
    return {of, Quantizer<double>::books(of, words), Quantizer<double>::books(of, words)};
}

TEST(MaplQuantizer, TakesTheNearestAndOfTwoTheFirst) {
    const Settings of = settings({.codewords = 4}, 1);
    const auto made = quantizer(of, {0, 2, -2, 2});
    Real Z(5, 1);
    Z << 0.75, 1, 1.25, -1, -1.5;
    Indices wanted(5, 1);
    wanted << 0, 0, 1, 0, 2; // 1 and -1 lie in the middle; 1 and 3 are the same codeword
    EXPECT_EQ(made.encoded(Z), wanted);
}

// Two groups of two rounds: the second round gets what the first one leaves.
TEST(MaplQuantizer, RoundsTakeWhatIsLeft) {
    const Settings of = settings({.codewords = 2, .groups = 2, .rounds = 2}, 2);
    const auto made = quantizer(of, {0, 4, 0, 1, 0, -4, 0, 1});
    Real Z(2, 2);
    Z << 5.25, -3.5, 0.75, 2;
    Indices wanted(2, 4);
    wanted << 1, 1, 1, 0, 0, 1, 0, 1;
    EXPECT_EQ(made.encoded(Z), wanted);
    Real decoded(2, 2);
    decoded << 5, -4, 1, 1;
    EXPECT_EQ(made.decoded(wanted), decoded);
}

TEST(MaplQuantizer, LearnsMeansAndLeavesZeroAndTheUnused) {
    const Settings of = settings({.codewords = 4, .subsets = 2, .decay = 0.75}, 1);
    auto made = quantizer(of, {0, 4, -4, 100});
    Real Z(4, 1);
    Z << 3, 5.5, -6, 0.5;
    Real travels = Z;
    const Indices wanted = made.encoded(Z);
    EXPECT_EQ(made.through(travels), wanted);
    EXPECT_EQ(made.L[0](0, 0), 0.0);
    EXPECT_EQ(made.L[0](1, 0), 0.75 * 4 + 0.25 * 4.25);
    EXPECT_EQ(made.L[0](2, 0), 0.75 * -4 + 0.25 * -6);
    EXPECT_EQ(made.L[0](3, 0), 100.0);
    const std::vector<Word> first = travelling(of, 0);
    for (Index word = 0; word < 4; ++word) {
        const bool arrived = std::ranges::find(first, static_cast<Word>(word)) != first.end();
        const double begun = word == 1 ? 4 : word == 2 ? -4 : word == 3 ? 100 : 0;
        EXPECT_EQ(made.C[0](word, 0), arrived ? made.L[0](word, 0) : begun) << word;
    }
    static_cast<void>(made.through(travels));
    EXPECT_EQ(made.travelled, 2);
}

/// The distance between decoded values and their second encoding.
double again(const Settings& of, const std::vector<float>& words, const Real& Z) {
    const auto made = quantizer(of, words);
    const Real once = made.decoded(made.encoded(Z));
    return (made.decoded(made.encoded(once)) - once).norm();
}

// Property 14. Its second part is for one round only: 4.9 is 0 + 6, and 6 is nearer to 10 than to
// 0.
TEST(MaplQuantizer, WhatWasDecodedIsItselfInOneRoundAndNotInTwo) {
    const Settings one = settings({.codewords = 32, .groups = 2}, 4);
    EXPECT_EQ(again(one, first_codebooks(one), drawn(50, 4, 1)), 0.0);
    Real Z(1, 1);
    Z << 4.9;
    EXPECT_EQ(again(settings({.codewords = 2, .rounds = 2}, 1), {0, 10, 0, 6}, Z), 4.0);
}

// With 0 among the codewords no round increases the error; without it one may.
TEST(MaplQuantizer, ErrorDoesNotGrowWithRounds) {
    const Settings of = settings({.codewords = 8, .groups = 2, .rounds = 4}, 4);
    const auto made = quantizer(of, first_codebooks(of));
    const Real Z = drawn(40, 4, 2);
    Indices indices = made.encoded(Z);
    std::vector<double> left;
    made.rounds(Z, indices, [&](const Real& v, std::size_t book) {
        const Real after = made.residual(v, indices, book);
        for (Index token = 0; token < v.rows(); ++token)
            EXPECT_LE(after.row(token).norm(), v.row(token).norm());
        left.push_back(after.norm());
    });
    EXPECT_LT(left[3], 0.5 * left[0]);
}

// The purpose of learning: where the data has as many places as there are codewords, they go there.
TEST(MaplQuantizer, CodewordsGoWhereTheDataIs) {
    const Settings of = settings({.codewords = 4, .subsets = 4, .decay = 0.5}, 2);
    auto made = quantizer(of, {0, 0, 1, 0.5, -1, 0.25, 0.25, -1});
    Real places(3, 2);
    places << 2, 1, -3, 0.5, 0.5, -2.5;
    for (int micro = 0; micro < 200; ++micro) {
        Real Z = places;
        static_cast<void>(made.through(Z));
        if (micro > 150) {
            EXPECT_LE((Z - places).norm(), 1e-6) << micro;
        }
    }
}

TEST(MaplQuantizer, GoesStraightThroughABoundary) {
    const Settings of = settings({.codewords = 16, .rounds = 2}, 2);
    auto made = quantizer(of, first_codebooks(of));
    Boundary<double> boundary;
    boundary.A = testing::exact_polar(drawn(5, 2, 3));
    const Real X = drawn(6, 5, 4);
    const auto went = forward(boundary, made, X, Ids(6, 0));
    EXPECT_GT((went.Z - X * boundary.A).norm(), 1e-3);
    EXPECT_LE((went.Xhat - went.Z * boundary.A.transpose()).norm(), 1e-14);
    auto gradients = boundary.no_gradients();
    const Real G = drawn(6, 5, 5);
    EXPECT_LE((boundary.backward(G, went, gradients).dX - G * boundary.A * boundary.A.transpose()).norm(),
              1e-14);
    EXPECT_LE((gradients.receiver - G.transpose() * went.Z).norm(), 1e-14);
}

} // namespace
} // namespace truestep::reference::mapl

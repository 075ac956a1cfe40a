// Tests MAPL's settings, its initial matrices, and the bound on A's distance to the manifold.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::problem::mapl {
namespace {

std::string what(const std::function<void()>& throws) {
    try {
        throws();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(MaplSettings, EachWrongOneIsNamed) {
    const auto told = [](const std::function<void(Settings&)>& change) {
        Settings settings{.width = 4, .rank = 2, .vocabulary = 9};
        change(settings);
        return what([&] { check(settings); });
    };
    EXPECT_EQ(told([](Settings&) {}), "");
    EXPECT_EQ(told([](Settings& s) { s.rank = 5; }),
              "rank is 5; it must be from 1 to the width, which is 4");
    EXPECT_EQ(told([](Settings& s) { s.rank = 0; }),
              "rank is 0; it must be from 1 to the width, which is 4");
    EXPECT_EQ(told([](Settings& s) { s.width = 0; }), "width is 0; it must be from 1 to 2^24");
    EXPECT_EQ(told([](Settings& s) { s.width = Index{1} << 24U; }), "");
    EXPECT_EQ(told([](Settings& s) { s.width = (Index{1} << 24U) + 1; }),
              "width is 16777217; it must be from 1 to 2^24");
    EXPECT_EQ(told([](Settings& s) { s.vocabulary = 0; }), "vocabulary is 0; it must be from 1 to 2^32");
    EXPECT_EQ(told([](Settings& s) { s.vocabulary = Index{1} << 32U; }), "");
    EXPECT_EQ(told([](Settings& s) { s.vocabulary = (Index{1} << 32U) + 1; }),
              "vocabulary is 4294967297; it must be from 1 to 2^32");
    EXPECT_EQ(told([](Settings& s) { s.beta = 1.0; }), "beta is 1; it must be at least 0 and less than 1");
    EXPECT_EQ(told([](Settings& s) { s.beta = std::nan(""); }),
              "beta is nan; it must be at least 0 and less than 1");
    EXPECT_EQ(told([](Settings& s) { s.direction_iterations = 0; }),
              "direction_iterations is 0; it must be from 1 to 1000");
    EXPECT_EQ(told([](Settings& s) { s.retraction_iterations = 1001; }),
              "retraction_iterations is 1001; it must be from 1 to 1000");
    for (const double rate : {-0.1, 0.52, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_NE(what([&] { check_rate(rate); }), "");
    EXPECT_EQ(what([] { check_rate(0.5); }), "");
}

TEST(MaplSettings, WordsAndBack) {
    for (const Anchors anchors : {Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two})
        EXPECT_EQ(parse_anchors(name(anchors)), anchors);
    for (const Order order : {Order::project_first, Order::momentum_first})
        EXPECT_EQ(parse_order(name(order)), order);
    for (const Payload payload : {Payload::fp32, Payload::bf16})
        EXPECT_EQ(parse_payload(name(payload)), payload);
    EXPECT_EQ(what([] { static_cast<void>(parse_payload("fp16")); }),
              "payload: 'fp16' is unknown; use fp32 or bf16");
    EXPECT_EQ(what([] { static_cast<void>(parse_anchors("both")); }),
              "anchors: 'both' is unknown; use none, fixed, shared or two");
    EXPECT_EQ(what([] { static_cast<void>(parse_order("")); }),
              "order: '' is unknown; use project_first or momentum_first");
}

TEST(MaplSettings, IdsTakeTheLeastWholeBytes) {
    for (const auto& [vocabulary, bytes] : std::vector<std::pair<Index, std::size_t>>{{1, 1},
                                                                                      {2, 1},
                                                                                      {256, 1},
                                                                                      {257, 2},
                                                                                      {65536, 2},
                                                                                      {65537, 3},
                                                                                      {1 << 17, 3},
                                                                                      {1 << 24, 3},
                                                                                      {(1 << 24) + 1, 4}})
        EXPECT_EQ(id_bytes(vocabulary), bytes) << vocabulary;
}

TEST(MaplSettings, AValueTakesTheBytesOfItsFormat) {
    EXPECT_EQ(value_bytes(Payload::fp32), 4U);
    EXPECT_EQ(value_bytes(Payload::bf16), 2U);
}

TEST(MaplSettings, RowsAndColumnsAreOrthonormal) {
    for (const auto& [width, rank] : {std::pair<Index, Index>{1, 1}, {5, 5}, {24, 7}, {64, 16}}) {
        const std::vector<float> a = first_subspace(width, rank, 3);
        EXPECT_LE(distance_to_manifold(a, rank), 4e-7) << width;
        EXPECT_NO_THROW(check_on_manifold({.width = width, .rank = rank}, a));
        const Settings settings{.width = width, .rank = rank, .anchors = Anchors::two};
        const std::vector<float> p = anchor_rows(settings, Side::sender);
        std::vector<float> columns(p.size());
        for (std::size_t i = 0; i < p.size(); ++i)
            columns[i % static_cast<std::size_t>(width) * static_cast<std::size_t>(rank) +
                    i / static_cast<std::size_t>(width)] = p[i];
        EXPECT_LE(distance_to_manifold(columns, rank), 4e-7) << width;
        if (width > 1) {
            EXPECT_NE(p, anchor_rows(settings, Side::receiver));
        }
        Settings one = settings;
        one.anchors = Anchors::shared;
        EXPECT_EQ(anchor_rows(one, Side::sender), anchor_rows(one, Side::receiver));
    }
}

TEST(MaplSettings, OffTheManifoldIsToldWithDistanceAndBound) {
    const Settings settings{.width = 2, .rank = 1};
    EXPECT_NO_THROW(check_rows(settings, std::vector<float>{0.0F, 1.0F}));
    EXPECT_THROW(check_rows(settings, std::vector<float>{1.0F, 1.0F}), Error);
    const std::vector<float> twice{2.0F, 0.0F};
    EXPECT_EQ(what([&] { check_on_manifold(settings, twice); }).substr(0, 60),
              "the subspace is off the manifold: |A^T A - I| is 3, and roun");
    const std::vector<float> not_finite{std::numeric_limits<float>::quiet_NaN(), 0.0F};
    EXPECT_THROW(check_on_manifold(settings, not_finite), Error);
    const std::vector<float> long_one(3, 0.0F);
    EXPECT_EQ(what([&] { check_on_manifold(settings, long_one); }),
              "the subspace has 3 values; width 2 and rank 1 make it 2");
}

// Worked out by hand for one feature: a step at the greatest rate leaves a singular value of 0.48,
// and two turns of the retraction take it to 0.9750; A^T A may be 2 * 0.0250 from 1.
TEST(MaplSettings, StepsMayLeaveWhatTheRetractionDoes) {
    const Settings settings{.width = 1, .rank = 1};
    const auto at_distance = [](double distance) {
        return std::vector<float>{static_cast<float>(std::sqrt(1.0 + distance))};
    };
    EXPECT_EQ(what([&] { check_on_manifold(settings, at_distance(0.0499), 1); }), "");
    EXPECT_NE(what([&] { check_on_manifold(settings, at_distance(0.0501), 1); }), "");
    EXPECT_NE(what([&] { check_on_manifold(settings, at_distance(0.0499)); }), "");
}

} // namespace
} // namespace truestep::problem::mapl

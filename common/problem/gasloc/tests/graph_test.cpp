// Tests the graphs of every GASLoC law, their random draws, and the checks of given graphs.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/graph.hpp>

namespace truestep::problem::gasloc {
namespace {

using testing::ElementsAre;

std::string error_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

// Computed from section 14 alone, in Python's whole numbers.
TEST(Graph, RandomNumbersAreThoseOfTheSpecification) {
    EXPECT_EQ(random_number(0, 1, 1), 0x4181b152fb77616fU);
    EXPECT_EQ(random_number(1, 2, 3), 0x14d14f80e5f9c880U);
    EXPECT_THAT(permutation(1, 1, 8), ElementsAre(1, 4, 5, 6, 7, 0, 3, 2));
    EXPECT_THAT(permutation(7, 5, 5), ElementsAre(1, 4, 3, 2, 0));
}

TEST(Graph, OfEachLaw) {
    EXPECT_EQ(graph_of(Law::ring, 1, 1, 4), (Graph{{0, 1}, {0, 3}, {1, 2}, {2, 3}}));
    EXPECT_EQ(graph_of(Law::ring, 1, 9, 2), (Graph{{0, 1}}));
    EXPECT_EQ(graph_of(Law::exponential, 1, 2, 5), (Graph{{0, 2}, {0, 3}, {1, 3}, {1, 4}, {2, 4}}));
    EXPECT_EQ(graph_of(Law::exponential, 1, 3, 8), (Graph{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(graph_of(Law::exponential, 1, 4, 8), graph_of(Law::ring, 1, 1, 8));
    EXPECT_EQ(graph_of(Law::hypercube, 1, 2, 4), (Graph{{0, 2}, {1, 3}}));
    EXPECT_EQ(graph_of(Law::complete, 1, 1, 3), (Graph{{0, 1, 2.0 / 3}, {0, 2, 2.0 / 3}, {1, 2, 2.0 / 3}}));
    EXPECT_EQ(graph_of(Law::two_peers, 5, 1, 3), (Graph{{0, 1}, {0, 2}, {1, 2}}));
    EXPECT_EQ(graph_of(Law::two_peers, 5, 1, 2), (Graph{{0, 1}}));
    EXPECT_EQ(graph_of(Law::none, 1, 1, 4), Graph{});
    for (const Law law : all_laws)
        if (law != Law::given) {
            EXPECT_EQ(graph_of(law, 1, 1, 1), Graph{}) << name(law);
            EXPECT_EQ(parse_law(name(law)), law);
        }
}

TEST(Graph, GraphsComeBackAfterTheirPeriod) {
    EXPECT_EQ(period_of(Law::exponential, 2), 1);
    EXPECT_EQ(period_of(Law::exponential, 8), 3);
    EXPECT_EQ(period_of(Law::exponential, 9), 4);
    EXPECT_EQ(period_of(Law::hypercube, 8), 3);
    for (const Law fixed : {Law::ring, Law::complete, Law::none})
        EXPECT_EQ(period_of(fixed, 5), 1) << name(fixed);
    for (const Law law : all_laws)
        EXPECT_EQ(period_of(law, 1), 1) << name(law) << " of one worker, who has no edge";
    for (const Law never : {Law::pairs, Law::two_peers, Law::given})
        EXPECT_EQ(period_of(never, 8), 0) << name(never);
    for (const Law law : all_laws)
        for (const int workers : {1, 2, 8}) {
            const Index period = period_of(law, workers);
            for (Index round = 1; period != 0 && law != Law::given && round <= 10; ++round)
                EXPECT_EQ(graph_of(law, 1, round + period, workers), graph_of(law, 1, round, workers))
                    << name(law) << " of " << workers;
        }
}

TEST(Graph, ARoundOfPairsHasEachWorkerOnce) {
    for (const int workers : {2, 3, 8, 33})
        for (Index round = 1; round <= 20; ++round) {
            std::set<int> met;
            for (const Edge& edge : graph_of(Law::pairs, 3, round, workers)) {
                EXPECT_LT(edge.a, edge.b);
                EXPECT_TRUE(met.insert(edge.a).second);
                EXPECT_TRUE(met.insert(edge.b).second);
            }
            EXPECT_EQ(met.size(), static_cast<std::size_t>(workers / 2 * 2));
        }
    EXPECT_NE(graph_of(Law::pairs, 3, 1, 8), graph_of(Law::pairs, 3, 2, 8));
    EXPECT_NE(graph_of(Law::pairs, 3, 1, 8), graph_of(Law::pairs, 4, 1, 8));
}

// Chi-square of 28 edges over 7000 rounds, 27 degrees of freedom: 99.99 % lie under 63.2.
TEST(Graph, PairsAreDrawnAlikeOften) {
    std::map<std::pair<int, int>, int> met;
    for (Index round = 1; round <= 7000; ++round)
        for (const Edge& edge : graph_of(Law::pairs, 11, round, 8))
            ++met[{edge.a, edge.b}];
    EXPECT_EQ(met.size(), 28U);
    double chi_square = 0.0;
    for (const auto& [edge, times] : met)
        chi_square += (times - 1000.0) * (times - 1000.0) / 1000.0;
    EXPECT_LT(chi_square, 63.2);
}

TEST(Graph, NeighboursAscend) {
    const Graph graph = checked({{4, 2, 0.5}, {2, 0}, {2, 3}}, 5, "edges");
    EXPECT_THAT(neighbours(graph, 2), ElementsAre(Neighbour{0, 1.0}, Neighbour{3, 1.0}, Neighbour{4, 0.5}));
    EXPECT_TRUE(neighbours(graph, 1).empty());
}

TEST(Graph, WhatIsNoneIsRefused) {
    const auto refused = [](Edge edge) {
        return error_of([&] { static_cast<void>(checked({{0, 1}, edge}, 3, "round 2")); });
    };
    EXPECT_EQ(refused({2, 2}),
              "round 2: the edge between workers 2 and 2 leads back to where it begins; leave it out");
    EXPECT_EQ(refused({1, 0}),
              "round 2: the edge between workers 0 and 1 is there twice; a pair counts once");
    EXPECT_EQ(refused({1, 3}),
              "round 2: the edge between workers 1 and 3 names one that does not exist; there are 3");
    EXPECT_EQ(refused({1, 2, 0.0}),
              "round 2: the edge between workers 1 and 2 has the weight 0; it must be positive");
    EXPECT_EQ(error_of([] { check_law(Law::hypercube, 6); }),
              "law: a hypercube of 6 workers does not exist; use a power of two, or another law");
    EXPECT_THAT(error_of([] { static_cast<void>(parse_law("star")); }), testing::HasSubstr("two_peers"));
    EXPECT_THAT(error_of([] { static_cast<void>(graph_of(Law::given, 1, 1, 2)); }),
                testing::HasSubstr("give its edges"));
}

} // namespace
} // namespace truestep::problem::gasloc

// Explores the scenarios with most schedules as all_schedules_test.cpp does the others: half of the
// whole time, for ci/nightly.

#include "exploration_case.hpp"

namespace truestep::distributed::model {
namespace {

TEST_P(Schedules, AllEndWell) {
    enumerate_all();
}

TEST_P(Schedules, DrawnOnesEndWell) {
    draw_some(50'000);
}

INSTANTIATE_TEST_SUITE_P(Longest, Schedules,
                         ::testing::Values(ExplorationCase{"stays", 2, 1'000'000},
                                           ExplorationCase{"error_after", 2, 1'000'000},
                                           ExplorationCase{"brings_another", 2, 400'000},
                                           ExplorationCase{"impatient", 2, 1'000'000},
                                           ExplorationCase{"wakes_for_nothing", 2, 900'000},
                                           ExplorationCase{"triangle", 3, 1'400'000},
                                           ExplorationCase{"peers_wake_for_nothing", 3, 2'500'000}),
                         scenario_of);

} // namespace
} // namespace truestep::distributed::model

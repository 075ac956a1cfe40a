// Explores up to two preemptions of everything, three of peers, and many drawn schedules, which
// takes minutes. The longest scenarios are in longest_schedules_test.cpp.

#include "exploration_case.hpp"

namespace truestep::distributed::model {
namespace {

TEST_P(Schedules, AllEndWell) {
    enumerate_all();
}

TEST_P(Schedules, DrawnOnesEndWell) {
    draw_some(50'000);
}

INSTANTIATE_TEST_SUITE_P(
    Long, Schedules,
    ::testing::Values(ExplorationCase{"to_owners", 2, 800'000}, ExplorationCase{"all_gather", 2, 800'000},
                      ExplorationCase{"reduce_scatter", 2, 800'000},
                      ExplorationCase{"error_in_flight", 2, 100'000},
                      ExplorationCase{"abort_in_flight", 2, 200'000}, ExplorationCase{"drops", 2, 200'000},
                      ExplorationCase{"workers_3", 3, 400'000}, ExplorationCase{"ring", 3, 240'000},
                      ExplorationCase{"peers_stay", 3, 600'000}, ExplorationCase{"used_again", 3, 800'000},
                      ExplorationCase{"dropped", 3, 90'000},
                      ExplorationCase{"impatient_peers", 3, 400'000}),
    scenario_of);

} // namespace
} // namespace truestep::distributed::model

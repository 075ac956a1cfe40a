// Explores up to two preemptions of everything, three of peers, and many drawn schedules, which
// takes minutes. The longest scenarios are in longest_schedules_test.cpp.

#include "asked.hpp"

namespace truestep::distributed::model {
namespace {

TEST_P(Schedules, AllEndWell) {
    enumerate_all();
}

TEST_P(Schedules, DrawnOnesEndWell) {
    draw_some(50'000);
}

INSTANTIATE_TEST_SUITE_P(Long, Schedules,
                         ::testing::Values(Asked{"to_owners", 2, 800'000}, Asked{"all_gather", 2, 800'000},
                                           Asked{"reduce_scatter", 2, 800'000},
                                           Asked{"error_in_flight", 2, 100'000},
                                           Asked{"abort_in_flight", 2, 200'000}, Asked{"drops", 2, 200'000},
                                           Asked{"workers_3", 3, 400'000}, Asked{"ring", 3, 240'000},
                                           Asked{"peers_stay", 3, 600'000}, Asked{"used_again", 3, 800'000},
                                           Asked{"dropped", 3, 90'000},
                                           Asked{"impatient_peers", 3, 400'000}),
                         scenario_of);

} // namespace
} // namespace truestep::distributed::model

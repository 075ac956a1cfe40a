// Runs the sources of the in-process communicator, the peers and the thread pool under a scheduler
// that takes every decision: docs/schedules.md explains what that shows. all_schedules_test.cpp is
// the long part.

#include <gmock/gmock.h>

#include "exploration_case.hpp"

namespace truestep::distributed::model {
namespace {

using ::testing::HasSubstr;

TEST_P(Schedules, AllEndWell) {
    enumerate_all();
}

TEST_P(Schedules, DrawnOnesEndWell) {
    draw_some(1'000);
}

INSTANTIATE_TEST_SUITE_P(
    BriefTable, Schedules,
    ::testing::Values(
        ExplorationCase{"all_to_all", 2, 800'000}, ExplorationCase{"to_owners", 1, 30'000},
        ExplorationCase{"all_gather", 1, 30'000}, ExplorationCase{"reduce_scatter", 1, 30'000},
        ExplorationCase{"two_at_once", 1, 70'000}, ExplorationCase{"stays", 1, 90'000},
        ExplorationCase{"error_in_flight", 1, 3'000}, ExplorationCase{"error_after", 1, 30'000},
        ExplorationCase{"abort_in_flight", 1, 3'000}, ExplorationCase{"leaves", 2, 30'000},
        ExplorationCase{"drops", 1, 5'000}, ExplorationCase{"brings_another", 1, 9'000},
        ExplorationCase{"never_comes", 2, 70'000}, ExplorationCase{"hangs_between", 1, 40'000},
        ExplorationCase{"impatient", 1, 40'000}, ExplorationCase{"wakes_for_nothing", 1, 30'000},
        ExplorationCase{"no_thread_for_a_rank", 2, 3'000}, ExplorationCase{"workers_1", 2, 1},
        ExplorationCase{"workers_2", 5, 100}, ExplorationCase{"workers_3", 2, 20'000},
        ExplorationCase{"no_thread_for_a_worker", 3, 3}, ExplorationCase{"ring", 2, 25'000},
        ExplorationCase{"peers_stay", 2, 60'000}, ExplorationCase{"triangle", 2, 90'000},
        ExplorationCase{"used_again", 2, 70'000}, ExplorationCase{"dropped", 2, 12'000},
        ExplorationCase{"never_taken", 3, 20'000}, ExplorationCase{"peer_leaves", 3, 20'000},
        ExplorationCase{"peer_fails", 3, 20'000}, ExplorationCase{"peer_hangs", 3, 1'500},
        ExplorationCase{"impatient_peers", 2, 35'000},
        ExplorationCase{"peers_wake_for_nothing", 2, 120'000}),
    scenario_of);

/// A known bug, the scenario that finds it, and the text of the failure.
struct KnownBug {
    int number;
    std::string scenario;
    std::string told;
};

std::ostream& operator<<(std::ostream& out, const KnownBug& known_bug) {
    return out << "known bug " << known_bug.number << " in " << known_bug.scenario;
}

class Planted : public ::testing::TestWithParam<KnownBug> {};

TEST_P(Planted, IsFoundAndItsScheduleRepeatsIt) {
    const Scenario wrong = scenario(GetParam().scenario, GetParam().number);
    const ExplorationResult explored = enumerate_up_to(wrong, 2);
    ASSERT_TRUE(explored.failure) << "not found in " << explored.schedules << " schedules";
    std::cout << "| " << GetParam().number << " | `" << wrong.name << "` | " << explored.schedules << " | `"
              << explored.failure->schedule << "` | " << explored.failure->what << " |\n";
    EXPECT_THAT(explored.failure->what, HasSubstr(GetParam().told));
    const ExplorationResult again = repeat(wrong, explored.failure->schedule);
    ASSERT_TRUE(again.failure);
    EXPECT_EQ(told(*again.failure), told(*explored.failure));
}

constexpr const char* gone = "a buffer is used after it was freed";
constexpr const char* race = "memory is written while another thread may still use it";
constexpr const char* for_ever = "threads yield for ever";
constexpr const char* late = "did not answer within 5 s";
constexpr const char* overslept = "a thread slept until its deadline";
constexpr const char* asleep = "nothing can go on";

INSTANTIATE_TEST_SUITE_P(
    Each, Planted,
    ::testing::Values(KnownBug{1, "all_to_all", late}, KnownBug{2, "stays", overslept},
                      KnownBug{3, "leaves", late}, KnownBug{4, "all_gather", late},
                      KnownBug{5, "to_owners", late}, KnownBug{6, "reduce_scatter", late},
                      KnownBug{7, "all_to_all", overslept}, KnownBug{8, "abort_in_flight", gone},
                      KnownBug{9, "abort_in_flight", race}, KnownBug{10, "abort_in_flight", race},
                      KnownBug{11, "all_to_all", gone}, KnownBug{12, "workers_2", asleep},
                      KnownBug{13, "workers_3", asleep}, KnownBug{14, "workers_3", asleep},
                      KnownBug{15, "workers_2", "memory is"}, KnownBug{16, "workers_2", "memory is"},
                      KnownBug{17, "impatient", "a rank was told: ranks  did not answer"},
                      KnownBug{18, "peers_stay", overslept}, KnownBug{19, "peer_leaves", overslept},
                      KnownBug{20, "used_again", gone}, KnownBug{21, "used_again", race},
                      KnownBug{22, "peer_leaves", "memory is"}, KnownBug{23, "never_taken", for_ever}),
    [](const auto& tested) { return "KnownBug" + std::to_string(tested.param.number); });

} // namespace
} // namespace truestep::distributed::model

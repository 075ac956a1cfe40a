// Runs the sources of the in-process communicator, the peers and the thread pool under a scheduler
// that takes every decision: docs/schedules.md explains what that shows. all_schedules_test.cpp is
// the long part.

#include <gmock/gmock.h>

#include "asked.hpp"

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
    Brief, Schedules,
    ::testing::Values(
        Asked{"all_to_all", 2, 800'000}, Asked{"to_owners", 1, 30'000}, Asked{"all_gather", 1, 30'000},
        Asked{"reduce_scatter", 1, 30'000}, Asked{"two_at_once", 1, 70'000}, Asked{"stays", 1, 90'000},
        Asked{"error_in_flight", 1, 3'000}, Asked{"error_after", 1, 30'000},
        Asked{"abort_in_flight", 1, 3'000}, Asked{"leaves", 2, 30'000}, Asked{"drops", 1, 5'000},
        Asked{"brings_another", 1, 9'000}, Asked{"never_comes", 2, 70'000},
        Asked{"hangs_between", 1, 40'000}, Asked{"impatient", 1, 40'000},
        Asked{"wakes_for_nothing", 1, 30'000}, Asked{"no_thread_for_a_rank", 2, 3'000},
        Asked{"workers_1", 2, 1}, Asked{"workers_2", 5, 100}, Asked{"workers_3", 2, 20'000},
        Asked{"no_thread_for_a_worker", 3, 3}, Asked{"ring", 2, 25'000}, Asked{"peers_stay", 2, 60'000},
        Asked{"triangle", 2, 90'000}, Asked{"used_again", 2, 70'000}, Asked{"dropped", 2, 12'000},
        Asked{"never_taken", 3, 20'000}, Asked{"peer_leaves", 3, 20'000}, Asked{"peer_fails", 3, 20'000},
        Asked{"peer_hangs", 3, 1'500}, Asked{"impatient_peers", 2, 35'000},
        Asked{"peers_wake_for_nothing", 2, 120'000}),
    scenario_of);

/// A known bug, the scenario that finds it, and the text of the failure.
struct Mistake {
    int number;
    std::string scenario;
    std::string told;
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) {
    return out << "mistake " << mistake.number << " in " << mistake.scenario;
}

class Planted : public ::testing::TestWithParam<Mistake> {};

TEST_P(Planted, IsFoundAndItsScheduleRepeatsIt) {
    const Scenario wrong = scenario(GetParam().scenario, GetParam().number);
    const Explored explored = enumerate_up_to(wrong, 2);
    ASSERT_TRUE(explored.failure) << "not found in " << explored.schedules << " schedules";
    std::cout << "| " << GetParam().number << " | `" << wrong.name << "` | " << explored.schedules << " | `"
              << explored.failure->schedule << "` | " << explored.failure->what << " |\n";
    EXPECT_THAT(explored.failure->what, HasSubstr(GetParam().told));
    const Explored again = repeat(wrong, explored.failure->schedule);
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
    ::testing::Values(Mistake{1, "all_to_all", late}, Mistake{2, "stays", overslept},
                      Mistake{3, "leaves", late}, Mistake{4, "all_gather", late},
                      Mistake{5, "to_owners", late}, Mistake{6, "reduce_scatter", late},
                      Mistake{7, "all_to_all", overslept}, Mistake{8, "abort_in_flight", gone},
                      Mistake{9, "abort_in_flight", race}, Mistake{10, "abort_in_flight", race},
                      Mistake{11, "all_to_all", gone}, Mistake{12, "workers_2", asleep},
                      Mistake{13, "workers_3", asleep}, Mistake{14, "workers_3", asleep},
                      Mistake{15, "workers_2", "memory is"}, Mistake{16, "workers_2", "memory is"},
                      Mistake{17, "impatient", "a rank was told: ranks  did not answer"},
                      Mistake{18, "peers_stay", overslept}, Mistake{19, "peer_leaves", overslept},
                      Mistake{20, "used_again", gone}, Mistake{21, "used_again", race},
                      Mistake{22, "peer_leaves", "memory is"}, Mistake{23, "never_taken", for_ever}),
    [](const auto& tested) { return "Mistake" + std::to_string(tested.param.number); });

} // namespace
} // namespace truestep::distributed::model

// Tests the explorer itself with programs of a few lines whose bugs are known.

#include <exception>
#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model.hpp"
#include "scenarios.hpp"

namespace truestep::distributed::model {
namespace {

using ::testing::HasSubstr;

/// Two threads that each add one, in two steps that ought to be one.
void adds_in_two_steps() {
    Atomic<int> sum{0};
    {
        const auto add = [&] { sum = sum + 1; };
        const JoiningThread first(add);
        const JoiningThread second(add);
    }
    expect(sum == 2, "one was lost");
}

TEST(Explorer, NeedsAsManyPreemptionsAsTheMistakeDoes) {
    const Scenario scenario{"two steps", adds_in_two_steps};
    EXPECT_FALSE(enumerate(scenario, 0).failure);
    const ExplorationResult found = enumerate(scenario, 1);
    ASSERT_TRUE(found.failure);
    EXPECT_EQ(found.failure->what, "one was lost");
    EXPECT_TRUE(draw(scenario, 7, 1'000).failure);
}

TEST(Explorer, RepeatsASchedule) {
    const Scenario scenario{"two steps", adds_in_two_steps};
    const ExplorationResult found = enumerate(scenario, 1);
    ASSERT_TRUE(found.failure);
    const ExplorationResult again = repeat(scenario, found.failure->schedule);
    ASSERT_TRUE(again.failure);
    EXPECT_EQ(again.failure->story, found.failure->story);
    EXPECT_FALSE(repeat(scenario, "").failure);
    EXPECT_THROW((void)repeat(scenario, "one"), std::invalid_argument);
    EXPECT_THROW((void)repeat(scenario, "9999:1"), std::invalid_argument);
}

TEST(Explorer, DrawsTheSameFromTheSameSeed) {
    const Scenario scenario{"two steps", adds_in_two_steps};
    const ExplorationResult once = draw(scenario, 7, 1'000);
    const ExplorationResult again = draw(scenario, 7, 1'000);
    ASSERT_TRUE(once.failure && again.failure);
    EXPECT_EQ(once.schedules, again.schedules);
    EXPECT_EQ(once.failure->schedule, again.failure->schedule);
}

TEST(Explorer, FindsLocksTakenTheOtherWayRound) {
    const ExplorationResult found = enumerate({"locks",
                                               [] {
                                                   Mutex a;
                                                   Mutex b;
                                                   const auto both = [](Mutex& first, Mutex& second) {
                                                       const std::lock_guard one(first);
                                                       const std::lock_guard two(second);
                                                   };
                                                   const JoiningThread other([&] { both(a, b); });
                                                   both(b, a);
                                               }},
                                              1);
    ASSERT_TRUE(found.failure);
    EXPECT_EQ(found.failure->what,
              "nothing can go on: thread 0 stands where it locks, thread 1 stands where it locks");
}

TEST(Explorer, FindsAWakeUpThatIsLost) {
    const ExplorationResult found = enumerate({"lost",
                                               [] {
                                                   Mutex mutex;
                                                   ConditionVariable changed;
                                                   Atomic<bool> ready{false};
                                                   const JoiningThread other([&] {
                                                       ready = true; // and not under the mutex
                                                       changed.notify_all();
                                                   });
                                                   std::unique_lock lock(mutex);
                                                   changed.wait(lock, [&] { return ready.load(); });
                                               }},
                                              1);
    ASSERT_TRUE(found.failure);
    EXPECT_THAT(found.failure->what, HasSubstr("thread 0 sleeps"));
}

TEST(Explorer, WakesAnyOneOfTheSleepers) {
    std::set<int> woken;
    const Scenario scenario{"one of two", [&woken] {
                                Mutex mutex;
                                ConditionVariable changed;
                                Plain<int> sleepers{0};
                                Plain<int> first{0};
                                const auto sleep = [&](int name) {
                                    std::unique_lock lock(mutex);
                                    ++sleepers;
                                    changed.wait(lock);
                                    if (first == 0)
                                        first = name;
                                    changed.notify_one();
                                };
                                {
                                    const JoiningThread one([&] { sleep(1); });
                                    const JoiningThread two([&] { sleep(2); });
                                    for (bool both = false; !both;) {
                                        yield();
                                        const std::lock_guard lock(mutex);
                                        both = sleepers == 2;
                                        if (both)
                                            changed.notify_one();
                                    }
                                }
                                woken.insert(first);
                            }};
    const ExplorationResult explored = enumerate(scenario, 0);
    EXPECT_FALSE(explored.failure) << explored.failure->what;
    EXPECT_EQ(woken, (std::set<int>{1, 2}));
}

TEST(Explorer, FindsASleeperThatTrustsEveryWakeUp) {
    Scenario scenario{"trust", [] {
                          Mutex mutex;
                          ConditionVariable changed;
                          Plain<bool> ready{false};
                          const JoiningThread other([&] {
                              const std::lock_guard lock(mutex);
                              ready = true;
                              changed.notify_all();
                          });
                          std::unique_lock lock(mutex);
                          if (!ready)
                              changed.wait(lock);
                          expect(ready, "up too early");
                      }};
    EXPECT_FALSE(enumerate(scenario, 2).failure);
    scenario.world.wakes_for_nothing = true;
    EXPECT_TRUE(enumerate(scenario, 2).failure);
}

TEST(Explorer, FindsThreadsThatYieldForEver) {
    const ExplorationResult found = enumerate({"for ever",
                                               [] {
                                                   const Atomic<bool> never{false};
                                                   while (!never)
                                                       yield();
                                               }},
                                              0);
    ASSERT_TRUE(found.failure);
    EXPECT_THAT(found.failure->what, HasSubstr("yield for ever"));
}

TEST(Explorer, LetsTimePassOnlyWhereNothingElseCanHappen) {
    const auto sleeps = [](bool is_woken) {
        return [is_woken] {
            Mutex mutex;
            ConditionVariable changed;
            Plain<bool> ready{false};
            const JoiningThread other([&] {
                const std::lock_guard lock(mutex);
                ready = is_woken;
                changed.notify_all();
            });
            std::unique_lock lock(mutex);
            const Time deadline = now() + std::chrono::seconds(5);
            const bool in_time = changed.wait_until(lock, deadline, [&] { return ready; });
            expect(in_time == is_woken, "woken at another time");
            expect(in_time || now() == deadline, "the deadline has not passed");
        };
    };
    for (const bool is_woken : {false, true})
        EXPECT_FALSE(enumerate({"asleep", sleeps(is_woken)}, 2).failure);
    EXPECT_TRUE(enumerate({"asleep", sleeps(true), {.impatient = true}}, 1).failure);
}

/// No schedule shows the wrong value, but the explorer still finds that nothing orders the two.
TEST(Explorer, FindsMemoryThatNothingGuards) {
    const auto hands_over = [](bool tells) {
        return [tells] {
            Plain<int> value{0};
            Atomic<bool> told{false};
            const JoiningThread other([&] {
                value = 1;
                if (tells)
                    told = true;
            });
            if (!tells || told)
                (void)static_cast<int>(value);
        };
    };
    EXPECT_FALSE(enumerate({"told", hands_over(true)}, 2).failure);
    const ExplorationResult found = enumerate({"not told", hands_over(false)}, 0);
    ASSERT_TRUE(found.failure);
    EXPECT_THAT(found.failure->what, HasSubstr("memory is"));
}

TEST(Explorer, GivesEachThreadItsOwnExceptions) {
    const ExplorationResult explored =
        enumerate({"exceptions",
                   [] {
                       struct Steps {
                           Atomic<int>& steps;
                           ~Steps() {
                               steps = 1;
                               expect(std::uncaught_exceptions() == 1, "none in flight");
                               steps = 2;
                           }
                       };
                       Atomic<int> steps{0};
                       const JoiningThread other([&] {
                           for (int i = 0; i < 3; ++i) {
                               steps = 3;
                               expect(std::uncaught_exceptions() == 0, "one in flight");
                               expect(std::current_exception() == nullptr, "one caught");
                           }
                       });
                       try {
                           const Steps unwound{steps};
                           throw std::runtime_error("mine");
                       } catch (const std::runtime_error&) {
                           steps = 4;
                           expect(std::current_exception() != nullptr, "none caught");
                       }
                   }},
                  2);
    EXPECT_FALSE(explored.failure) << explored.failure->what;
}

/// Cutting must lose no state in which an execution can end.
class Cut : public ::testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Cut, LosesNoEnd) {
    const auto& [name, bound] = GetParam();
    const ExplorationResult cut = enumerate(scenario(name), bound, {.cuts = true, .keeps_ends = true});
    const ExplorationResult whole = enumerate(scenario(name), bound, {.cuts = false, .keeps_ends = true});
    EXPECT_LT(cut.schedules, whole.schedules);
    EXPECT_EQ(whole.cut, 0);
    EXPECT_EQ(cut.ends, whole.ends);
}

INSTANTIATE_TEST_SUITE_P(Each, Cut,
                         ::testing::Values(std::pair("workers_2", 4), std::pair("workers_3", 2),
                                           std::pair("leaves", 1), std::pair("never_comes", 1),
                                           std::pair("no_thread_for_a_rank", 2),
                                           std::pair("all_to_all", 1)),
                         [](const auto& tested) { return std::string(tested.param.first); });

} // namespace
} // namespace truestep::distributed::model

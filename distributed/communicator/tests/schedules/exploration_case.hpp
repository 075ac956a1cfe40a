#pragma once

#include <cstdint>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "scenarios.hpp"

namespace truestep::distributed::model {

/// A scenario and the schedules to explore. `least` reveals an exploration that has become empty.
struct ExplorationCase {
    std::string scenario;
    int bound;
    std::uint64_t least;
};

inline std::ostream& operator<<(std::ostream& out, const ExplorationCase& asked) {
    return out << asked.scenario;
}

inline std::string scenario_of(const ::testing::TestParamInfo<ExplorationCase>& info) {
    return info.param.scenario;
}

inline std::string told(const Failure& failure) {
    return failure.what + "\nschedule \"" + failure.schedule + "\":\n" + failure.story;
}

inline void expect_all_end_well(const std::string& name, const std::string& which,
                                const ExplorationResult& explored) {
    std::cout << name << ", " << which << ": " << explored.schedules << " schedules of "
              << explored.steps / explored.schedules << " steps on average, " << explored.cut
              << " of them cut where another had been\n";
    EXPECT_FALSE(explored.failure) << told(*explored.failure);
}

class Schedules : public ::testing::TestWithParam<ExplorationCase> {
  protected:
    static void enumerate_all() {
        const ExplorationCase& asked = GetParam();
        const ExplorationResult explored = enumerate(scenario(asked.scenario), asked.bound);
        expect_all_end_well(asked.scenario, "at most " + std::to_string(asked.bound) + " preemptions",
                            explored);
        EXPECT_GE(explored.schedules, asked.least);
    }
    static void draw_some(std::uint64_t count) {
        const std::string& name = GetParam().scenario;
        expect_all_end_well(name, "seed 1", draw(scenario(name), 1, count));
    }
};

} // namespace truestep::distributed::model

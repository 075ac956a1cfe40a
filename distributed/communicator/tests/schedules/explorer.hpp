#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "scheduler.hpp"

namespace truestep::distributed::model {

/// A scenario to run under all schedules. `body` runs in a thread of the model, starts the others
/// and checks the results.
struct Scenario {
    std::string name;
    std::function<void()> body;
    World world{};
};

/// Ends the execution as a failure unless it holds.
void expect(bool holds, std::string_view what);

struct Failure {
    std::string what;
    std::string schedule; ///< what repeats it
    std::string story;    ///< its steps, a line each
};

struct ExplorationResult {
    std::uint64_t schedules = 0;
    std::uint64_t cut = 0; ///< of these: continued by first options from a known state
    std::uint64_t steps = 0;
    std::optional<Failure> failure;
    std::set<std::uint64_t> ends; ///< the final states, if these are kept
};

struct Way {
    bool cuts = true;
    bool keeps_ends = false;
};

/// Runs all schedules with at most `bound` preemptions and optional faults, one after the other,
/// until one fails.
[[nodiscard]] ExplorationResult enumerate(const Scenario& scenario, int bound, Way way = {});

/// The same with bounds 0, 1 and so on, so that a failure has the fewest necessary preemptions.
[[nodiscard]] ExplorationResult enumerate_up_to(const Scenario& scenario, int bound);

/// Runs `count` schedules drawn from a seed, with any number of preemptions.
[[nodiscard]] ExplorationResult draw(const Scenario& scenario, std::uint64_t seed, std::uint64_t count);

/// Runs one schedule: `step:option` wherever another option than the first was taken, as in "41:1
/// 97:2".
[[nodiscard]] ExplorationResult repeat(const Scenario& scenario, const std::string& schedule);

} // namespace truestep::distributed::model

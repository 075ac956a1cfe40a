#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/gpu/scape/guesses.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/statistics.hpp>

namespace truestep::gpu::bench {

using problem::Index;

/// One action at one size and density, timed many times.
struct Row {
    std::string name;
    Index d = 0;
    double density = 0.0; ///< 0 where it has no influence
    double bytes = 0.0;   ///< the least that it has to move through the device's memory; 0: not counted
    std::vector<double> seconds;
    double copy = 0.0;          ///< bytes read and written per second of the copy beside it
    std::optional<Index> wrong; ///< values with other bits than the host's, just before the timing
    std::optional<scape::Guesses::Account> guesses{}; ///< of the selections that were timed

    [[nodiscard]] double rate() const { return bytes / median(seconds); }
    [[nodiscard]] double share_of_copy() const { return rate() / copy; }
    /// Its time as a multiple of the time to copy the same number of bytes.
    [[nodiscard]] double times_least() const { return 1.0 / share_of_copy(); }
};

/// The host's time for a whole step of one rank, including the wait for the verdict.
struct Launch {
    Index d = 0;
    bool graph = false;
    std::vector<double> seconds;
    double least = 0.0; ///< seconds of the step's least bytes at the copy's rate

    [[nodiscard]] double overhead() const { return median(seconds) - least; }
};

enum class Verdict { met, missed, not_measured };
[[nodiscard]] std::string_view name(Verdict verdict);

struct Goal {
    std::string text;
    double limit = 0.0;
    bool at_least = false;          ///< or at most
    std::optional<double> measured; ///< no number, no verdict
    std::string note;               ///< why not

    [[nodiscard]] Verdict verdict() const;
};

struct Report {
    std::string skipped; ///< why nothing was measured; empty where it was
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<Row> rows;
    std::vector<Launch> launches;
    std::vector<std::string> notes;

    [[nodiscard]] bool wrong() const;
};

/// The rows that have goals.
constexpr std::string_view local_pass_row = "local pass";
constexpr std::string_view selection_row = "selection";
constexpr std::string_view read_row = "one read of the shard";
constexpr std::string_view step_row = "whole local step";
/// At smaller sizes a launch weighs as much as the memory, and the goals on throughput do not apply.
constexpr Index least_size_of_goals = Index{1} << 26;
constexpr Index size_of_launches = Index{1} << 20;

/// The project's goals, applied to the largest size that was measured.
[[nodiscard]] std::vector<Goal> goals_of(const Report& report);

/// Adds rows of bench/gpu/torch_adamw.py, or the reason why it has none. Throws truestep::Error.
void add_torch(Report& report, const nlohmann::json& torch);

[[nodiscard]] std::string text(const Report& report);
[[nodiscard]] nlohmann::json json(const Report& report);

} // namespace truestep::gpu::bench

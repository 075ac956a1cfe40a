#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/level.hpp>
#include <truestep/verify/seen.hpp>

/// What is asked of a trace, and what came of it: of any system.
namespace truestep::verify {

/// Where a step of the reference begins.
enum class From {
    recorded, ///< at the recorded state before it, so that one early rounding does not hide the rest
    start,    ///< at its own state after the step before: it runs free
};

[[nodiscard]] std::string name(From from);
[[nodiscard]] From parse_from(const std::string& text);

/// The REL limit is the bound on the reference's own fp32 rounding error, times this: another formulation
/// of the same mathematics may round as often again elsewhere.
constexpr double rel_slack = 2.0;

struct VerifyOptions {
    std::optional<From> from; ///< none: recorded where the states are recorded, else start
    Level level = Level::exact();
    bool look = false; ///< also gather what a page draws
    std::function<void(Index step, Index steps)> progress = [](Index, Index) {};
    /// Of a large trace; the verdict is the same for any number.
    int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    /// Coordinates that a thread has before it at a time, at least, where they can be told apart (SCAPE's
    /// segments). The verdict is the same for any number.
    Index piece = Index{1} << 16;
};

/// What came of one kind of result over all steps and ranks.
struct Row {
    std::string phase; ///< of the step
    std::string result;
    Index compared = 0;
    Index mismatched = 0;
    Index unbounded = 0; ///< not compared: their limit is infinite (see Comparison)
    Index nonzero = 0;
    Index eligible = 0; ///< of the compared values, those that are not zero by rule
    double greatest_ulps = 0.0;
    double share_of_limit = 0.0;

    [[nodiscard]] Status status() const { return verdict(compared, mismatched, nonzero, eligible); }
};

/// All rows together: sums, and the worst of what is worst.
[[nodiscard]] Row total(const std::vector<Row>& rows);

/// What a system calls these in texts; the keys of JSON are the same for all.
struct Words {
    std::string_view step = "step";
    std::string_view rank = "rank";
};

/// The first place at which the trace and the reference part.
struct Divergence {
    static constexpr int all_ranks = -1;

    Index step = 0;
    std::string phase;
    std::string result;
    int rank = all_ranks; ///< whose vector it is (of a mask that all ranks share: the segment's owner)
    std::optional<Index> index; ///< coordinate in the flat vector; none of a whole step or a fingerprint
    Comparison comparison;
    std::string note;           ///< what else there is to say, one line
    bool between_ranks = false; ///< beside another rank's copy, wherever the reference is
};

/// The note of a verdict on a trace of several ranks that holds one copy only.
constexpr std::string_view replicas_not_recorded =
    "replicas: not recorded: one copy of what has to be the same on all ranks";

struct TraceVerdict {
    std::string path;
    std::string source;
    std::string problem; ///< what was trained, how: one line
    problem::Layout layout;
    Index steps = 0;
    Level level;
    From from = From::recorded;
    std::vector<Row> rows;
    std::vector<std::string> notes;
    std::optional<Divergence> first;
    Status status = Status::untested;
    Seen seen = {};                      ///< where it was asked for
    std::vector<std::string> hints = {}; ///< what the wrong values have in common, of one that fails
    bool keeps_bf16 = false; ///< of one that fails: its recorded state is made of numbers of bf16
    Words words = {};
    Index refused = 0; ///< steps before the first divergence, which have changed nothing
};

} // namespace truestep::verify

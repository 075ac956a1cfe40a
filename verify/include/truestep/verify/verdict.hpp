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
#include <truestep/verify/run_plots.hpp>

/// The options for checking a trace, and the verdict, for any system.
namespace truestep::verify {

/// Where a step of the reference begins.
enum class ReferenceStart {
    recorded, ///< at the recorded state before it, so that one early rounding does not hide the rest
    start,    ///< at its own state after the step before: it runs free
};

[[nodiscard]] std::string name(ReferenceStart from);
[[nodiscard]] ReferenceStart parse_from(const std::string& text);

/// The REL limit is the bound on the reference's own fp32 rounding error, times this: another
/// formulation of the same mathematics may round equally often elsewhere.
constexpr double rel_slack = 2.0;

struct VerifyOptions {
    std::optional<ReferenceStart> from; ///< none: recorded if the states are recorded, else start
    Level level = Level::exact();
    bool look = false; ///< also gather data for a page
    std::function<void(Index step, Index steps)> progress = [](Index, Index) {};
    /// For a large trace; any number gives the same verdict.
    int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    /// The minimum of coordinates that a thread handles at a time, if they can be separated
    /// (SCAPE's segments). Any number gives the same verdict.
    Index piece = Index{1} << 16;
};

/// The result for one kind of result over all steps and ranks.
struct Row {
    std::string phase; ///< of the step
    std::string result;
    Index compared = 0;
    Index mismatched = 0;
    Index unbounded = 0; ///< not compared: their limit is infinite (see Comparison)
    Index nonzero = 0;
    Index eligible = 0; ///< those of the compared values that are not zero by rule
    double greatest_ulps = 0.0;
    double share_of_limit = 0.0;

    [[nodiscard]] Status status() const { return verdict(compared, mismatched, nonzero, eligible); }
};

/// All rows together: sums, and the worst values.
[[nodiscard]] Row total(const std::vector<Row>& rows);

/// A system's words for these in texts; the keys of JSON are the same for all.
struct Words {
    std::string_view step = "step";
    std::string_view rank = "rank";
};

/// The first place at which the trace differs from the reference.
struct Divergence {
    static constexpr int all_ranks = -1;

    Index step = 0;
    std::string phase;
    std::string result;
    int rank = all_ranks; ///< whose vector it is (of a mask that all ranks share: the segment's owner)
    std::optional<Index> index; ///< coordinate in the flat vector; none for a whole step or a fingerprint
    Comparison comparison;
    std::string note;           ///< additional information, one line
    bool between_ranks = false; ///< compared with another rank's copy, not with the reference
};

/// The note of a verdict on a trace of several ranks that holds only one copy.
constexpr std::string_view replicas_not_recorded =
    "replicas: not recorded: one copy of what has to be the same on all ranks";

struct TraceVerdict {
    std::string path;
    std::string source;
    std::string problem; ///< what was trained and how: one line
    problem::Layout layout;
    Index steps = 0;
    Level level;
    ReferenceStart from = ReferenceStart::recorded;
    std::vector<Row> rows;
    std::vector<std::string> notes;
    std::optional<Divergence> first;
    Status status = Status::untested;
    RunPlots seen = {};                  ///< if requested
    std::vector<std::string> hints = {}; ///< for a failed trace: what the wrong values have in common
    bool keeps_bf16 = false; ///< for a failed trace: its recorded state consists of bf16 numbers
    Words words = {};
    Index refused = 0; ///< refused steps before the first divergence, which have changed nothing
};

} // namespace truestep::verify

#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/trace/prints.hpp>

/// Runs of which fingerprints were recorded: are a run's ranks alike, and how far do two runs go together?
namespace truestep::verify {

using problem::Index;

/// The ranks of one run, in order. Some may be missing.
using PrintsOfRun = std::vector<trace::Prints>;

/// One file a rank. Throws truestep::Error where they are not of one run, or a rank is there twice.
[[nodiscard]] PrintsOfRun read_run(const std::vector<std::string>& paths);

/// The first fingerprint that is another, by step, result, tensor and rank.
struct PrintsDifference {
    Index step = 0;
    Index after = 0; ///< the last step before it that was compared: what differs arose since then
    std::string result;
    std::string tensor;
    std::vector<int> ranks; ///< within a run: those that do not hold what most hold
    /// Of each result of that step, how many of its fingerprints are others, of how many.
    struct Share {
        std::string result;
        Index others = 0;
        Index all = 0;
    };
    std::vector<Share> shares;
};

struct PrintsVerdict {
    std::string run;                     ///< "3 ranks, 40 steps, 12 tensors of 1030 parameters"
    std::vector<std::string> replicated; ///< what was compared over ranks; empty: nothing was
    Index compared = 0;                  ///< fingerprints, over ranks or between runs
    std::optional<PrintsDifference> between_ranks;
    bool has_other = false;
    Index together = 0; ///< the last step of the longest common prefix
    std::optional<PrintsDifference> between_runs;
    std::vector<std::string> notes;

    [[nodiscard]] bool same() const { return !between_ranks && !between_runs; }
};

/// `other` may be empty. Throws truestep::Error where two runs have no step or result in common, or nothing
/// could be compared at all.
[[nodiscard]] PrintsVerdict compare_prints(const PrintsOfRun& run, const PrintsOfRun& other);

[[nodiscard]] std::string text_report(const PrintsVerdict& verdict);
[[nodiscard]] nlohmann::ordered_json json_report(const PrintsVerdict& verdict);

} // namespace truestep::verify

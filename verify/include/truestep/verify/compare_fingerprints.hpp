#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/trace/rank_fingerprints.hpp>

/// Compares recorded fingerprints: do a run's ranks agree, and how far do two runs agree?
namespace truestep::verify {

using problem::Index;

/// The ranks of one run, in order. Some may be missing.
using RunFingerprints = std::vector<trace::RankFingerprints>;

/// Reads one file for each rank. Throws truestep::Error if they are not of one run, or a rank is
/// there twice.
[[nodiscard]] RunFingerprints read_run(const std::vector<std::string>& paths);

/// The first fingerprint that differs, by step, result, tensor and rank.
struct FingerprintDifference {
    Index step = 0;
    Index after = 0; ///< the last compared step before it; the difference arose since then
    std::string result;
    std::string tensor;
    std::vector<int> ranks; ///< within a run: the ranks that differ from the majority
    /// For each result of that step, how many of its fingerprints differ.
    struct Share {
        std::string result;
        Index others = 0;
        Index all = 0;
    };
    std::vector<Share> shares;
};

struct PrintsVerdict {
    std::string run;                     ///< "3 ranks, 40 steps, 12 tensors of 1030 parameters"
    std::vector<std::string> replicated; ///< the results compared between ranks; empty: none
    Index compared = 0;                  ///< fingerprints, over ranks or between runs
    std::optional<FingerprintDifference> between_ranks;
    bool has_other = false;
    Index together = 0; ///< the last step of the longest common prefix
    std::optional<FingerprintDifference> between_runs;
    std::vector<std::string> notes;

    [[nodiscard]] bool same() const { return !between_ranks && !between_runs; }
};

/// `other` may be empty. Throws truestep::Error if two runs have no step or result in common, or
/// nothing at all could be compared.
[[nodiscard]] PrintsVerdict compare_prints(const RunFingerprints& run, const RunFingerprints& other);

[[nodiscard]] std::string text_report(const PrintsVerdict& verdict);
[[nodiscard]] nlohmann::ordered_json json_report(const PrintsVerdict& verdict);

} // namespace truestep::verify

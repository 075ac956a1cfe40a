/// Do the collectives of a run do what they are defined to do? From what each rank wrote by itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/verify/collectives/recording.hpp>

namespace truestep::verify::collectives {

/// Something that does not hold, in the order in which it happened.
struct Finding {
    Index at = 0;      ///< calls of the first of its ranks before it
    std::string kind;  ///< "order", "op", "value", "copy", "moved", "overwritten", "gradient",
                       ///< "hang"
    std::string where; ///< "call 7, all-reduce of float32[4096] over ranks 0, 1"
    std::string what;
    std::vector<std::string> details = {}; ///< callers and the like, a line each
    std::vector<int> ranks = {};           ///< that it is about
    std::optional<Index> index = {};       ///< of the value
    std::optional<double> found = {};
    std::optional<double> expected = {};
    std::optional<double> bound = {};
    std::optional<double> factor = {};
};

struct Verdict {
    struct Count {
        Index calls = 0;
        Index checked = 0;
        std::string ops; ///< which reductions they were
    };
    std::string run;
    std::map<std::string, Count> counts; ///< by name and type
    std::vector<Finding> findings;
    std::vector<std::string> notes;
    Index steps = 0; ///< whose gradients were compared
    Index block = 1;

    [[nodiscard]] bool holds() const { return findings.empty(); }
};

/// One file a rank. Throws truestep::Error where they are not of one run, or a rank is missing or there
/// twice.
[[nodiscard]] std::vector<Recording> read_run(const std::vector<std::string>& paths);
[[nodiscard]] Verdict check(const std::vector<Recording>& run);

/// The chance that a sample of one of `block` values has at least one of `faults` wrong ones: 1-(1-s)^k.
[[nodiscard]] double chance_seen(Index block, Index faults);

[[nodiscard]] std::string text_report(const Verdict& verdict);
[[nodiscard]] nlohmann::ordered_json json_report(const Verdict& verdict);

} // namespace truestep::verify::collectives

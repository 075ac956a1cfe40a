#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

/// The fingerprints that one rank wrote while it trained: one number per step, result and tensor,
/// for any optimizer and its names. docs/specification/traces.md specifies the file.
namespace truestep::trace {

using problem::Index;

struct RankFingerprints {
    struct Result {
        std::string name;  ///< "gradient", "parameters", "exp_avg"
        bool same = false; ///< must be the same on all ranks
    };
    struct Step {
        Index step = 0;
        double learning_rate = 0.0;
        std::vector<std::vector<std::uint64_t>> of; ///< by result and tensor
    };

    std::filesystem::path path;
    std::string source;
    int workers = 1;
    int rank = 0;
    std::vector<problem::Tensor> tensors;
    std::vector<Result> results; ///< in the order in which they come about in a step
    std::vector<Step> steps;     ///< ascending
    bool torn = false;           ///< the writer died in the middle of a line
};

/// Whether a file holds fingerprints and is not a trace, by its first bytes.
[[nodiscard]] bool holds_prints(const std::filesystem::path& path);

/// Throws truestep::Error that names the line.
[[nodiscard]] RankFingerprints read_prints(const std::filesystem::path& path);

} // namespace truestep::trace

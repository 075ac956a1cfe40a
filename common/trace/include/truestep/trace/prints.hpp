#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

/// The fingerprints that one rank wrote while it trained: one number per step, result and tensor. Of any
/// optimizer, with names of its own. docs/specification/traces.md says how they stand in a file.
namespace truestep::trace {

using problem::Index;

struct Prints {
    struct Result {
        std::string name;  ///< "gradient", "parameters", "exp_avg"
        bool same = false; ///< has to be the same on all ranks
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
    bool torn = false;           ///< whoever wrote it ended in the midst of a line
};

/// Whether a file is one of these, and no trace: by its first bytes.
[[nodiscard]] bool holds_prints(const std::filesystem::path& path);

/// Throws truestep::Error that names the line.
[[nodiscard]] Prints read_prints(const std::filesystem::path& path);

} // namespace truestep::trace

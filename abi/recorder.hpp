#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <scape/problem/sample.hpp>
#include <scape/trace/schema.hpp>
#include <scape/verify/trace.hpp>

#include "problem.hpp"
#include "spool.hpp"

namespace scape::abi {

struct RecordedStep {
    std::map<problem::Index, double> learning_rates{}; ///< by parameter group
    std::optional<double> norm{};                      ///< of the mean gradient, where a sample is clipped
    std::optional<double> exponent{};                  ///< E of a payload of e5m2
    std::map<std::string, std::map<int, Spool::Place>> vectors{}; ///< by name and rank
};

} // namespace scape::abi

struct scape_recorder {
    scape_problem problem;
    std::string source;
    std::vector<float> parameters; ///< at the beginning, what is held of them
    std::vector<scape::abi::RecordedStep> steps{};
    std::optional<int> rank{}; ///< whose file it makes; nothing: of all ranks
    scape::verify::Extent extent{};
    scape::abi::RecordedStep before{}; ///< what it begins with, where steps had been taken
    scape::abi::Spool spool{};

    [[nodiscard]] std::vector<scape::problem::Range> held() const {
        const auto& whole = problem.problem;
        return extent.sample.empty() ? std::vector<scape::problem::Range>{{0, whole.layout.size()}}
                                     : ranges_of(extent.sample, whole);
    }
};

namespace scape::abi {

[[nodiscard]] trace::Schema schema_of(const scape_recorder& recorder);

/// Makes a trace of what has been recorded, or says what is missing.
void write(const scape_recorder& recorder, const std::filesystem::path& path);

} // namespace scape::abi

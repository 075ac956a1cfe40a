// The C handle of a recorder of SCAPE or AdamS, with the vectors of each recorded step.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/sample.hpp>
#include <truestep/trace/schema.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "problem.hpp"
#include "spool.hpp"

namespace truestep::abi {

struct RecordedStep {
    std::map<problem::Index, double> learning_rates{}; ///< by parameter group
    std::optional<double> norm{};                      ///< of the mean gradient, where a sample is clipped
    std::optional<double> exponent{};                  ///< E of a payload of e5m2
    std::map<std::string, std::map<int, Spool::Place>> vectors{}; ///< by name and rank
};

} // namespace truestep::abi

struct truestep_recorder {
    truestep_problem problem;
    std::string source;
    std::vector<float> parameters; ///< at the beginning, what is held of them
    std::vector<truestep::abi::RecordedStep> steps{};
    std::optional<int> rank{}; ///< the rank whose file this is; none: all ranks
    truestep::verify::scape::Extent extent{};
    truestep::abi::RecordedStep before{}; ///< the initial state, if earlier steps had been taken
    truestep::abi::Spool spool{};

    [[nodiscard]] std::vector<truestep::problem::Range> held() const {
        const auto& whole = problem.problem;
        return extent.sample.empty() ? std::vector<truestep::problem::Range>{{0, whole.layout.size()}}
                                     : ranges_of(extent.sample, whole);
    }
};

namespace truestep::abi {

[[nodiscard]] trace::Schema schema_of(const truestep_recorder& recorder);

/// Writes a trace of the recording, or throws with what is missing.
void write(const truestep_recorder& recorder, const std::filesystem::path& path);

} // namespace truestep::abi

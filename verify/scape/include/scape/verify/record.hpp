#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <scape/problem/data.hpp>
#include <scape/problem/density.hpp>
#include <scape/problem/problem.hpp>
#include <scape/verify/made_up.hpp>
#include <scape/verify/results.hpp>

namespace scape::verify {

using problem::DataClass;
using problem::gradient_value;
using problem::Index;
using problem::initial_parameter;

/// What a made-up run is kept in, and rounds each operation to.
enum class Arithmetic { fp32, bf16 };

struct RecordOptions {
    problem::Problem problem;
    problem::DensitySchedule density;
    Index steps = 1;
    double learning_rate = 0.01;
    double final_learning_rate = 0.01; ///< reached at the last step, on a straight line
    std::uint64_t seed = 1;
    DataClass data = DataClass::normal;
    std::vector<Injection> injections;
    bool intermediates = false;
    std::string source; ///< goes into the metadata
    std::function<void(Index step, Index steps)> progress = [](Index, Index) {};
    trace::Replicas replicas = trace::Replicas::none;
    std::string sample{}; ///< which segments are written (problem/sample.hpp); "": all
    Index begin = 0;      ///< steps that are taken before the first that is written
    Arithmetic arithmetic = Arithmetic::fp32;
    /// Of the parameter groups behind the first: their learning rates at the first and the last step.
    std::vector<std::pair<double, double>> more_learning_rates{};
};

/// Runs the reference on made-up gradients and writes the trace. Throws scape::Error.
void record(const std::filesystem::path& path, const RecordOptions& options);

} // namespace scape::verify

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/data.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/verify/made_up.hpp>
#include <truestep/verify/scape/results.hpp>

namespace truestep::verify::scape {

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
    std::string sample{}; ///< which segments are written (common/problem/sample.hpp); "": all
    Index begin = 0;      ///< steps that are taken before the first that is written
    Arithmetic arithmetic = Arithmetic::fp32;
    /// Of the parameter groups behind the first: their learning rates at the first and the last step.
    std::vector<std::pair<double, double>> more_learning_rates{};
};

/// Runs the reference on made-up gradients and writes the trace. Throws truestep::Error.
void record(const std::filesystem::path& path, const RecordOptions& options);

} // namespace truestep::verify::scape

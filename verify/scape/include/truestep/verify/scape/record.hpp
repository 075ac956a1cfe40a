// Recording synthetic runs of the reference as traces.
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
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/synthetic_run.hpp>

namespace truestep::verify::scape {

using problem::DataClass;
using problem::gradient_value;
using problem::Index;
using problem::initial_parameter;

/// The format in which a synthetic run stores its numbers and rounds each operation.
enum class Arithmetic { fp32, bf16 };

struct RecordOptions {
    problem::Problem problem;
    problem::DensitySchedule density;
    Index steps = 1;
    double learning_rate = 0.01;
    double final_learning_rate = 0.01; ///< reached linearly at the last step
    std::uint64_t seed = 1;
    DataClass data = DataClass::normal;
    std::vector<Injection> injections;
    bool intermediates = false;
    std::string source; ///< goes into the metadata
    std::function<void(Index step, Index steps)> progress = [](Index, Index) {};
    trace::Replicas replicas = trace::Replicas::none;
    std::string sample{}; ///< the segments to write (common/problem/sample.hpp); "": all
    Index begin = 0;      ///< steps taken before the first written one
    Arithmetic arithmetic = Arithmetic::fp32;
    /// The learning rates of the parameter groups after the first, at the first and the last step.
    std::vector<std::pair<double, double>> more_learning_rates{};
};

/// Runs the reference on synthetic gradients and writes the trace. Throws truestep::Error.
void record(const std::filesystem::path& path, const RecordOptions& options);

} // namespace truestep::verify::scape

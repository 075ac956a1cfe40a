#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>

#include "outcome.hpp"

namespace truestep::abi {

/// The values of `settings`; the model and the workers are separate.
struct Settings {
    problem::Algorithm algorithm = problem::Algorithm::scape;
    problem::HyperParameters hyper;
    std::string param_groups; ///< of each tensor, as text
    problem::DensitySchedule density = problem::DensitySchedule::constant(0.01);
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    distributed::scape::Reduction reduction = distributed::scape::Reduction::ordered;
    int threads = 1;
};

/// Throws truestep::Error for a key that is unknown or given twice, and for an invalid value.
[[nodiscard]] Settings parse_settings(const char* text);

/// The model as given, for any system's problem.
[[nodiscard]] problem::Layout layout_of(const truestep_tensor* tensors, std::size_t count);

} // namespace truestep::abi

struct truestep_problem {
    truestep::abi::Settings settings;
    truestep::problem::Problem problem;
};

namespace truestep::abi {

/// The density of the mask that a step uses.
[[nodiscard]] double density_at(const truestep_problem& problem, problem::Index step);

} // namespace truestep::abi

#pragma once

#include <nlohmann/json.hpp>

#include <truestep/training/convergence.hpp>

namespace truestep::training {

/// A run as the JSON that a run's own process answers with.
[[nodiscard]] nlohmann::ordered_json json_of(const LearnedRun& run);
[[nodiscard]] LearnedRun run_of(const nlohmann::ordered_json& json);

} // namespace truestep::training

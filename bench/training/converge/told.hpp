#pragma once

#include <nlohmann/json.hpp>

#include <truestep/training/convergence.hpp>

namespace truestep::training {

/// A run as a process of its own answers it.
[[nodiscard]] nlohmann::ordered_json json_of(const LearnedRun& run);
[[nodiscard]] LearnedRun run_of(const nlohmann::ordered_json& json);

} // namespace truestep::training

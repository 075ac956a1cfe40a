#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/training/curve.hpp>
#include <truestep/training/plan.hpp>

namespace truestep::training {

/// Null for a value that is not finite.
[[nodiscard]] nlohmann::ordered_json number(double value);
[[nodiscard]] nlohmann::ordered_json json_of(const Plan& plan, std::size_t symbols);
/// A loss that is not finite is null.
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Curve::Point>& points);
[[nodiscard]] std::vector<Curve::Point> points_of(const nlohmann::ordered_json& json);

} // namespace truestep::training

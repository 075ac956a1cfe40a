#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/training/curve.hpp>
#include <truestep/training/plan.hpp>

namespace truestep::training {

/// Or null, where it is none.
[[nodiscard]] nlohmann::ordered_json number(double value);
[[nodiscard]] nlohmann::ordered_json json_of(const Plan& plan, std::size_t symbols);
/// A loss that is no number is null.
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Curve::Point>& points);
[[nodiscard]] std::vector<Curve::Point> points_of(const nlohmann::ordered_json& json);

} // namespace truestep::training

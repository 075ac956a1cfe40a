#pragma once

#include <string>

#include "page_rows.hpp"

/// The parts of a page of recorded runs.
namespace truestep::report::page {

/// Curves over the steps, and their numbers, folded.
[[nodiscard]] std::string curves(const ordered_json& run);

/// The differences by step and tensor: a map for each result, side by side in the order of a step.
[[nodiscard]] std::string difference_maps(const ordered_json& run);

} // namespace truestep::report::page

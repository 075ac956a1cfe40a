// Tests that level REL's bounds hold, and that they are not too wide.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace truestep::properties::scape::floats {

/// Draws inputs, evaluates each formula in fp32 in an honest form drawn with them, and holds the result
/// against twice the bound of level REL. False if one lies outside, or if a dishonest form is never
/// outside.
bool check_bounds(std::uint64_t draws, std::uint64_t seed, int threads,
                  const std::function<void(const std::string&)>& say);

} // namespace truestep::properties::scape::floats

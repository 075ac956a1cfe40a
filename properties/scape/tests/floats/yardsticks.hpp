#pragma once

#include <functional>
#include <string>

namespace truestep::properties::scape::floats {

/// Checks the yardsticks, over a sample or all floats: the comparator's distance in ULP against the floats'
/// order, that REL's scalar is exact for a float, and the peers' bf16 against its definition. Also checks
/// the scalars of drawn steps.
bool check_yardsticks(bool all, int threads, const std::function<void(const std::string&)>& say);

} // namespace truestep::properties::scape::floats

#pragma once

#include <functional>
#include <string>

namespace truestep::properties::scape::floats {

/// What measures: the comparator's distance in ULP against the floats' order, that a float is exact for
/// REL's scalar, the peers' bf16 against its definition; over a sample, or all floats. And the scalars of
/// drawn steps.
bool check_yardsticks(bool all, int threads, const std::function<void(const std::string&)>& say);

} // namespace truestep::properties::scape::floats

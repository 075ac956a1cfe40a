#pragma once

#include <string_view>

namespace truestep::trace {

constexpr std::string_view format_name = "scape-trace";
constexpr std::string_view format_version = "1";

} // namespace truestep::trace

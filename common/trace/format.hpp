// The name and version of the trace format, as its files state them.
#pragma once

#include <string_view>

namespace truestep::trace {

constexpr std::string_view format_name = "scape-trace";
constexpr std::string_view format_version = "1";

} // namespace truestep::trace

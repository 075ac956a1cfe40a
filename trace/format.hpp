#pragma once

#include <string_view>

namespace scape::trace {

constexpr std::string_view format_name = "scape-trace";
constexpr std::string_view format_version = "1";

} // namespace scape::trace

#pragma once

#include <string_view>

namespace truestep::simulator {

/// The PTX for the newest architecture in what nvcc has put into an object. Throws Fault where there is
/// none, or where it is compressed.
[[nodiscard]] std::string_view ptx_of(const void* fat_binary);

} // namespace truestep::simulator

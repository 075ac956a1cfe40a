#pragma once

#include <string_view>

namespace truestep::simulator {

/// The PTX for the newest architecture in an object of nvcc. Throws Fault if there is none, or if
/// it is compressed.
[[nodiscard]] std::string_view ptx_of(const void* fat_binary);

} // namespace truestep::simulator

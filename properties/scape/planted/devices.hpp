#pragma once

#include <truestep/gpu/device_mistakes.hpp>

namespace truestep::properties::scape::planted {

/// The bugs of gpu/scape/planted that this number is one of, in either form; none where it is another's.
[[nodiscard]] const gpu::DeviceMistakes* on_devices_with(int number);

} // namespace truestep::properties::scape::planted

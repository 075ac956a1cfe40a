// The known bugs of device code, by their numbers among all of SCAPE's.
#pragma once

#include <truestep/gpu/device_bugs.hpp>

namespace truestep::properties::scape::planted {

/// The bugs of gpu/scape/planted among which this number is, in either form; null if it is none of theirs.
[[nodiscard]] const gpu::DeviceMistakes* on_devices_with(int number);

} // namespace truestep::properties::scape::planted

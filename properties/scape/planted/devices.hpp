#pragma once

#include <vector>

#include <truestep/planted/bugs.hpp>
#include <truestep/properties/implementations.hpp>

namespace truestep::planted {

/// Bugs in code for devices, twice: in the host's form, then on a device. Those whose numbers begin with
/// this one.
[[nodiscard]] std::vector<Description> device_descriptions(int first);

/// The one of this number. Its name is the caller's to give.
[[nodiscard]] properties::Ranked device_bug(int number);

} // namespace truestep::planted

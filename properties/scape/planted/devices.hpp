#pragma once

#include <vector>

#include <scape/planted/bugs.hpp>
#include <scape/properties/implementations.hpp>

namespace scape::planted {

/// The bugs in code for devices, twice: in the host's form, then on a device. Numbered from `first` on.
[[nodiscard]] std::vector<Description> device_descriptions(int first);

/// The one with this number among them, counted from 0. Its name is the caller's to give.
[[nodiscard]] properties::Ranked device_bug(int number);

} // namespace scape::planted

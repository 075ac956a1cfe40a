#pragma once

#include <filesystem>

#include <truestep/properties/scape/property.hpp>

namespace truestep::properties::scape {

/// A run as a trace: its steps up to the first restart, with each rank's own copy of what has to be the
/// same on all ranks. False, and no file, if it has no step that can be told, or none came to its end.
bool save_trace(const std::filesystem::path& path, const Ran& ran, const std::string& source);

} // namespace truestep::properties::scape

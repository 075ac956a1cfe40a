// Recorded runs of SCAPE as traces.
#pragma once

#include <filesystem>

#include <truestep/properties/scape/property.hpp>

namespace truestep::properties::scape {

/// Writes a run as a trace: its steps up to the first restart, with each rank's own copy of what must be
/// the same on all ranks. Returns false, without a file, if it has no step to record, or none completed.
bool save_trace(const std::filesystem::path& path, const RecordedRun& ran, const std::string& source);

} // namespace truestep::properties::scape

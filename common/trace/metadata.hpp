#pragma once

#include <string>

#include <truestep/storage/safetensors.hpp>

namespace truestep::trace {

/// Throws truestep::Error where a trace's metadata has no such entry.
[[nodiscard]] std::string metadata_entry(const storage::SafetensorsFile& file, const std::string& key);
/// The config of what is a trace of a version that can be read.
[[nodiscard]] std::string config_of(const storage::SafetensorsFile& file);
[[nodiscard]] std::string begin_of_config_errors(const storage::SafetensorsFile& file);

} // namespace truestep::trace

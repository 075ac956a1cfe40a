#pragma once

#include <string>

#include <truestep/storage/safetensors.hpp>

namespace truestep::trace {

/// The entry of a trace's metadata. Throws truestep::Error if it is missing.
[[nodiscard]] std::string metadata_entry(const storage::SafetensorsFile& file, const std::string& key);
/// The config of a trace. Throws truestep::Error unless its version can be read.
[[nodiscard]] std::string config_of(const storage::SafetensorsFile& file);
[[nodiscard]] std::string begin_of_config_errors(const storage::SafetensorsFile& file);

} // namespace truestep::trace

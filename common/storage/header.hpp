// The parsed JSON header of a safetensors file: its metadata and its tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <truestep/storage/safetensors.hpp>

namespace truestep::storage {

struct Header {
    std::map<std::string, std::string> metadata;
    std::vector<TensorEntry> tensors; ///< in the order of the text
};

/// Parses the JSON header of a file whose data section has `data_size` bytes. It checks each tensor
/// by itself, but not how they lie beside each other.
Header read_header(const std::filesystem::path& path, std::string text, std::uint64_t data_size);

} // namespace truestep::storage

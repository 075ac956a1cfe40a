#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <truestep/storage/safetensors.hpp>

namespace truestep::trace {

/// A tensor of a trace that is stored elsewhere until it is written.
struct Part {
    std::string name;
    storage::DataType type = storage::DataType::f32;
    std::vector<std::uint64_t> shape;
    std::function<std::vector<std::byte>()> bytes; ///< called once, when they are written
};

/// Writes a trace of parts that were gathered in any order. The file appears when it is complete.
void write_parts(const std::filesystem::path& path, const std::string& source, const std::string& config,
                 std::vector<Part> parts);

} // namespace truestep::trace

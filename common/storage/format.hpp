#pragma once

// Shared by the reader and the writer of safetensors files: sizes and names of the format, and
// words for messages.

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/storage/safetensors.hpp>

namespace truestep::storage {

constexpr std::uint64_t length_size = 8;
// The limit of the format's own implementation.
constexpr std::uint64_t header_limit = 100'000'000;
// Sums and products of accepted integers are checked against this, so they fit every signed offset type.
constexpr std::uint64_t greatest_integer = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view metadata_key = "__metadata__";

struct DataTypeRow {
    std::string_view name;
    std::uint64_t size;
};
// Indexed by DataType.
constexpr std::array<DataTypeRow, 13> data_types{{{"BOOL", 1},
                                                  {"U8", 1},
                                                  {"I8", 1},
                                                  {"U16", 2},
                                                  {"I16", 2},
                                                  {"F16", 2},
                                                  {"BF16", 2},
                                                  {"U32", 4},
                                                  {"I32", 4},
                                                  {"F32", 4},
                                                  {"U64", 8},
                                                  {"I64", 8},
                                                  {"F64", 8}}};

/// Printable ASCII for any bytes, cut at the limit: a message is one line, and names come from
/// files.
std::string shown(const std::string& text, std::size_t limit = 160);
std::string in_quotes(std::string_view text);
std::string tensor(std::string_view name);
std::string bytes_text(std::uint64_t count);
std::string range_text(std::uint64_t begin, std::uint64_t end);

[[noreturn]] void fail(const std::filesystem::path& path, std::uint64_t offset, const std::string& wrong,
                       const std::string& expected);

/// Nothing if the size exceeds greatest_integer.
std::optional<std::uint64_t> byte_count(DataType type, const std::vector<std::uint64_t>& shape);

} // namespace truestep::storage

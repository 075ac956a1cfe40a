// Computes the sizes of safetensors tensors, and words the errors about such files.
#include "format.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>

namespace truestep::storage {

std::string shown(const std::string& text, std::size_t limit) {
    const std::string escaped =
        nlohmann::json(text.substr(0, limit)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return escaped.substr(1, escaped.size() - 2) + (text.size() > limit ? "..." : "");
}

std::string in_quotes(std::string_view text) {
    std::string result = "\"";
    result += shown(std::string(text));
    return result += '"';
}

std::string tensor(std::string_view name) {
    return "tensor " + in_quotes(name);
}

std::string bytes_text(std::uint64_t count) {
    return std::to_string(count) + " bytes";
}

std::string range_text(std::uint64_t begin, std::uint64_t end) {
    return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

void fail(const std::filesystem::path& path, std::uint64_t offset, const std::string& wrong,
          const std::string& expected) {
    const std::string text = path.string();
    throw Error(shown(text, text.size()) + ": byte " + std::to_string(offset) + ": " + wrong + "; " +
                expected);
}

std::optional<std::uint64_t> byte_count(DataType type, const std::vector<std::uint64_t>& shape) {
    if (std::ranges::find(shape, 0U) != shape.end()) {
        return 0;
    }
    std::uint64_t count = element_size(type);
    for (const std::uint64_t extent : shape) {
        if (extent > greatest_integer / count) {
            return std::nullopt;
        }
        count *= extent;
    }
    return count;
}

std::uint64_t element_size(DataType type) {
    return data_types.at(static_cast<std::size_t>(type)).size;
}

std::string_view name(DataType type) {
    return data_types.at(static_cast<std::size_t>(type)).name;
}

std::uint64_t TensorEntry::element_count() const {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) {
        count *= extent;
    }
    return count;
}

} // namespace truestep::storage

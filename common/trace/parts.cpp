// Writes parts that are complete in memory as one trace file.
#include <truestep/trace/parts.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include "format.hpp"

namespace truestep::trace {

void write_parts(const std::filesystem::path& path, const std::string& source, const std::string& config,
                 std::vector<Part> parts) {
    // The widest types first, so that all stay aligned; then step by step.
    std::ranges::sort(parts, [](const Part& a, const Part& b) {
        return std::pair(element_size(b.type), std::string_view(a.name)) <
               std::pair(element_size(a.type), std::string_view(b.name));
    });
    storage::SafetensorsWriter writer(path, {{"format", std::string(format_name)},
                                             {"version", std::string(format_version)},
                                             {"source", source},
                                             {"config", config}});
    for (const Part& part : parts)
        writer.declare(part.name, part.type, part.shape);
    for (const Part& part : parts)
        writer.write(part.name, part.type, part.bytes());
    writer.finish();
}

} // namespace truestep::trace

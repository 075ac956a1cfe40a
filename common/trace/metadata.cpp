// Reads a trace's config from its metadata, and refuses files of another format or version.
#include "metadata.hpp"

#include <string_view>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "format.hpp"

namespace truestep::trace {

std::string metadata_entry(const storage::SafetensorsFile& file, const std::string& key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
        throw Error(file.path().string() + ": its metadata has no '" + key +
                    "'; a scape-trace has format, version, source and config (section 9)");
    return found->second;
}

std::string config_of(const storage::SafetensorsFile& file) {
    const auto expect_entry = [&](const std::string& key, std::string_view wanted) {
        if (const std::string found = metadata_entry(file, key); found != wanted)
            throw Error(file.path().string() + ": its metadata has " + key + " '" + one_line(found) +
                        "'; this tool reads " + key + " '" + std::string(wanted) + "'");
    };
    expect_entry("format", format_name);
    expect_entry("version", format_version);
    return metadata_entry(file, "config");
}

std::string begin_of_config_errors(const storage::SafetensorsFile& file) {
    return file.path().string() + ": config";
}

} // namespace truestep::trace

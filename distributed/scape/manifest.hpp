#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/problem/partition.hpp>

namespace truestep::distributed::scape {

using problem::Index;

/// The format of the manifest and of the ranks' files.
constexpr const char* checkpoint_format = "scape-checkpoint";
constexpr int checkpoint_version = 1;

/// The contents of a checkpoint's manifest, checked as far as possible without the files.
struct Manifest {
    struct File {
        std::uint64_t bytes = 0;
        std::uint64_t checksum = 0;
        friend bool operator==(const File&, const File&) = default;
    };
    struct Rank {
        problem::Range range;
        File file;
        friend bool operator==(const Rank&, const Rank&) = default;
    };
    Index step = 0;
    std::uint64_t model = 0;
    std::vector<Rank> ranks;

    friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// A file's name, such as "rank-0003.safetensors".
[[nodiscard]] std::string rank_file(std::size_t rank);

/// A 64-bit checksum, which reveals a change of any one byte.
[[nodiscard]] std::uint64_t checksum(const std::string& text);

/// The manifest's text. `description` is for people.
[[nodiscard]] std::string manifest_text(const Manifest& manifest, const std::string& description);

/// Parses it, for a model of `size` parameters. Throws truestep::Error, one line that begins with
/// `path`. The text must equal that of manifest_text to the byte, so that any change shows.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& path, Index size);

} // namespace truestep::distributed::scape

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/problem/partition.hpp>

namespace truestep::distributed::scape {

using problem::Index;

/// Of the manifest and of the ranks' files.
constexpr const char* checkpoint_format = "scape-checkpoint";
constexpr int checkpoint_version = 1;

/// What the manifest of a checkpoint says, checked as far as it can be without the files.
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

/// "rank-0003.safetensors".
[[nodiscard]] std::string rank_file(std::size_t rank);

/// 64 bits, in which a change of any one byte shows.
[[nodiscard]] std::uint64_t checksum(const std::string& text);

/// The manifest's file as it is written. `description` is for people.
[[nodiscard]] std::string manifest_text(const Manifest& manifest, const std::string& description);

/// And read back, for a model of `size` parameters. Throws truestep::Error, one line that begins with
/// `path`. The text has to be what manifest_text writes to the byte, so that a change of any one shows.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& path, Index size);

} // namespace truestep::distributed::scape

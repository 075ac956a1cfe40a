#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <truestep/storage/safetensors.hpp>

/// The names of files that the ranks of one run write each by itself. The config of such a file
/// also has the key `rank`, and its name contains rank<r>. The run's name has a star for the
/// number: run.rank*.safetensors.
namespace truestep::trace {

/// The rank of a file, and what else its config says of it.
struct RankFile {
    int rank = 0;
    int workers = 1;
};

/// Nothing if the trace holds all ranks. `what` begins an error's line.
[[nodiscard]] std::optional<RankFile> rank_in(const std::string& config, const std::string& what);

/// The config of one rank's file of a run, and that of the run.
[[nodiscard]] std::string with_rank(const std::string& config, int rank);
[[nodiscard]] std::string without_rank(const std::string& config);

/// Does the path name a run of several files? (A file whose own name contains a star does not.)
[[nodiscard]] bool names_ranks(const std::filesystem::path& path);
[[nodiscard]] std::filesystem::path file_of_rank(const std::filesystem::path& run, int rank);

/// Groups files by their run, in the order of the runs' first files. An unreadable file, and one
/// that holds all ranks, forms its own group.
[[nodiscard]] std::vector<std::vector<std::filesystem::path>>
by_run(const std::vector<std::filesystem::path>& files);

/// The name under which these files can be read as one trace: the run's, or the path of a single
/// file. Throws truestep::Error that names a missing or repeated rank, or says that the files are
/// not of one run.
[[nodiscard]] std::filesystem::path run_of(const std::vector<std::filesystem::path>& files);

/// Text such as "ranks 1, 2 of 4 are missing", for the ranks that are false.
[[nodiscard]] std::string missing_ranks(const std::vector<bool>& there);

} // namespace truestep::trace

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <truestep/storage/safetensors.hpp>

/// How files are named that the ranks of one run have written each by itself. Such a file's config has a
/// key more, `rank`, and its name has rank<r> in it; the run's own name is that of any of them with a star
/// in the number's place: run.rank*.safetensors.
namespace truestep::trace {

/// What a file's config says of whose it is.
struct RankFile {
    int rank = 0;
    int workers = 1;
};

/// Nothing of a trace that holds all ranks. `what` begins an error's line.
[[nodiscard]] std::optional<RankFile> rank_in(const std::string& config, const std::string& what);

/// The config of one rank's file of a run, and that of the run.
[[nodiscard]] std::string with_rank(const std::string& config, int rank);
[[nodiscard]] std::string without_rank(const std::string& config);

/// Does it name a run of several files? (A file that has a star in its own name does not.)
[[nodiscard]] bool names_ranks(const std::filesystem::path& path);
[[nodiscard]] std::filesystem::path file_of_rank(const std::filesystem::path& run, int rank);

/// The files by the run that they are of, in the order in which the runs are met. What cannot be read, and
/// what holds all ranks, stands by itself.
[[nodiscard]] std::vector<std::vector<std::filesystem::path>>
by_run(const std::vector<std::filesystem::path>& files);

/// The name under which these files can be read as one trace: theirs, or of a trace that is one file its
/// path. Throws truestep::Error that says which rank is missing or there twice, or that they are not of one
/// run.
[[nodiscard]] std::filesystem::path run_of(const std::vector<std::filesystem::path>& files);

/// "ranks 1, 2 of 4 are missing": those that are false.
[[nodiscard]] std::string missing_ranks(const std::vector<bool>& there);

} // namespace truestep::trace

// Reads the files of one trace as a whole: a single file, or one from each rank.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/storage/safetensors.hpp>

namespace truestep::trace {

/// The files of one trace: a single one, or one from each rank. Several files form a union; tensors
/// that more than one of them holds must be equal in every bit. All errors are truestep::Error.
class Bundle {
  public:
    /// `path` is a file, or the common name of several (ranks.hpp).
    explicit Bundle(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] const std::string& source() const { return source_; } ///< rank 0's
    /// The config of the whole run, without `rank`.
    [[nodiscard]] const std::string& config() const { return config_; }

    /// Has each rank written its own file? (If there is one rank, there is one file.)
    [[nodiscard]] bool of_ranks() const { return of_ranks_; }

    [[nodiscard]] bool holds(std::string_view tensor) const { return holders_.contains(tensor); }
    /// The first file that holds the tensor. If none does, the first file, whose error names what
    /// is missing.
    [[nodiscard]] const storage::SafetensorsFile& holder(std::string_view tensor) const;
    /// The tensors' names file by file, in the order of their data.
    [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  private:
    void open_ranks();
    void gather();

    std::filesystem::path path_;
    std::vector<storage::SafetensorsFile> files_;
    std::string config_;
    bool of_ranks_ = false;
    std::string source_;
    std::vector<std::string> names_;
    std::map<std::string, std::size_t, std::less<>> holders_;
};

/// The algorithm that a trace's config names, for callers that do not know the system yet. Throws
/// truestep::Error if the file is no trace or does not name one.
[[nodiscard]] std::string algorithm_of(const std::filesystem::path& path);

/// Joins the files of a run's ranks into one file, tensor by tensor.
void join(const std::filesystem::path& run, const std::filesystem::path& output);

} // namespace truestep::trace

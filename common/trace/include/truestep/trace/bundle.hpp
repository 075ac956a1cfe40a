#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/storage/safetensors.hpp>

namespace truestep::trace {

/// The files of one trace: one, or those that its ranks have written each by itself. Of several it is the
/// union; what more than one of them holds has to be the same in every bit. All errors are truestep::Error.
class Bundle {
  public:
    /// `path`: of a file, or a name of several (ranks.hpp).
    explicit Bundle(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] const std::string& source() const { return source_; } ///< rank 0's
    /// Of the whole run: without `rank`.
    [[nodiscard]] const std::string& config() const { return config_; }

    /// Has each rank written its own file? (Of one rank there is one.)
    [[nodiscard]] bool of_ranks() const { return of_ranks_; }

    [[nodiscard]] bool holds(std::string_view tensor) const { return holders_.contains(tensor); }
    /// The first file that holds it; of what none holds the first one, which says so.
    [[nodiscard]] const storage::SafetensorsFile& holder(std::string_view tensor) const;
    /// File by file, in the order of their data.
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

/// The algorithm that a trace's config names, before anything is known of its system. Throws
/// truestep::Error if it is no trace, or says nothing of it.
[[nodiscard]] std::string algorithm_of(const std::filesystem::path& path);

/// Makes one file of what the ranks of a run have written each by itself, tensor by tensor.
void join(const std::filesystem::path& run, const std::filesystem::path& output);

} // namespace truestep::trace

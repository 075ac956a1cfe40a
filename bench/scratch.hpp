#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::bench {

/// A temporary folder, removed at the end: under TMPDIR if that is set, else in memory if possible.
class Scratch {
  public:
    Scratch() {
        const std::string name = "truestep-bench";
        storage::remove_abandoned_folders(parent(), name); // of benchmarks that were killed
        path_ = storage::make_scratch_folder(parent(), name);
        if (path_.empty())
            throw Error(parent().string() + ": no folder for temporary files can be made; set TMPDIR");
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    /// Whether the user has chosen another place than memory.
    [[nodiscard]] static bool is_chosen() { return std::getenv("TMPDIR") != nullptr; }

  private:
    static std::filesystem::path parent() {
        const std::filesystem::path memory = "/dev/shm";
        return !is_chosen() && access(memory.c_str(), W_OK) == 0 ? memory
                                                                 : std::filesystem::temp_directory_path();
    }

    std::filesystem::path path_;
};

} // namespace truestep::bench

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <scape/problem/error.hpp>

namespace scape::bench {

/// A folder of its own where temporary files belong (TMPDIR says where), gone at the end.
class Scratch {
  public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "scape-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw Error(name + ": no folder for temporary files can be made; set TMPDIR");
        path_ = name;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

} // namespace scape::bench

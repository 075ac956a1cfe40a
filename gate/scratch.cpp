#include <scape/gate/group.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <unistd.h>

#include <scape/problem/error.hpp>

#include "scratch.hpp"

namespace scape::gate {

namespace {

namespace fs = std::filesystem;

fs::path parent() {
    for (const char* variable : {"SCAPE_SCRATCH", "TMPDIR"})
        if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0')
            return folder;
    // Checkpoints are synced to the disk; where there is none, that costs nothing.
    const fs::path memory = "/dev/shm";
    return access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
}

/// Made once in a process, by the rank that speaks, and removed at its end.
struct Folder {
    std::string path;
    bool own = false;
    pid_t process = getpid();

    explicit Folder(const Group& group) {
        if (group.speaks()) {
            path = (parent() / "scape-XXXXXX").string();
            own = mkdtemp(path.data()) != nullptr;
            if (!own)
                path = "";
        }
        path = group.told(path);
        if (path.empty())
            throw Error("no folder for temporary files can be made in " + parent().string() +
                        "; set SCAPE_SCRATCH to one that can be written, and that all ranks share");
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        if (own && process == getpid())
            fs::remove_all(path, ignored);
    }
};

std::optional<Folder>& folder() {
    static std::optional<Folder> only;
    return only;
}

} // namespace

/// A process that was started by the folder's owner has a part of it to itself.
std::string scratch_folder(const Group& group) {
    if (!folder())
        folder().emplace(group);
    if (folder()->process == getpid())
        return folder()->path;
    const fs::path own = fs::path(folder()->path) / std::to_string(getpid());
    fs::create_directories(own);
    return own;
}

void clear_scratch_of(pid_t process) {
    std::error_code ignored;
    if (folder())
        fs::remove_all(fs::path(folder()->path) / std::to_string(process), ignored);
}

std::string lasting_scratch_file(const std::string& name) {
    return folder() ? fs::path(folder()->path) / (std::to_string(getpid()) + "_" + name) : fs::path(name);
}

} // namespace scape::gate

#include <scape/gate/group.hpp>

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <scape/problem/error.hpp>

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
        if (own)
            fs::remove_all(path, ignored);
    }
};

} // namespace

std::string scratch_folder(const Group& group) {
    static const Folder folder(group);
    return folder.path;
}

} // namespace scape::gate

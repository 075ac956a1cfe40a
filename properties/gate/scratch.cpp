// Makes a process's scratch folder, in memory or where the user says, and removes it at the end.
#include <truestep/gate/group.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/storage/files.hpp>

#include "scratch.hpp"

namespace truestep::gate {

namespace {

namespace fs = std::filesystem;

std::string named_by(const char* variable) {
    const char* const folder = std::getenv(variable);
    return folder == nullptr ? "" : folder;
}

/// The folder that the user gave; machines may share it.
std::string given() {
    return named_by("TRUESTEP_SCRATCH");
}

fs::path parent() {
    for (const std::string& folder : {given(), named_by("TMPDIR")})
        if (!folder.empty())
            return folder;
    // Checkpoints are synced to disk, which costs nothing in memory.
    const fs::path memory = "/dev/shm";
    return access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
}

/// The folder's path for a signal handler; empty if it is not ours.
std::array<char, 4096> own_path{};

/// Made once in a process, by the rank that speaks, and removed at its end.
struct Folder {
    std::string path;
    bool own = false;
    pid_t process = getpid();

    explicit Folder(const Group& group) {
        if (group.speaks()) {
            const std::string name = "truestep-gate";
            if (given().empty())
                storage::remove_abandoned_folders(parent(), name);
            path = storage::make_scratch_folder(parent(), name);
            own = !path.empty();
        }
        if (own)
            std::snprintf(own_path.data(), own_path.size(), "%s", path.c_str());
        path = group.told(path);
        if (path.empty())
            throw Error("no folder for temporary files can be made in " + parent().string() +
                        "; set TRUESTEP_SCRATCH to one that can be written, and that all ranks share");
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        if (own && process == getpid()) {
            fs::remove_all(path, ignored);
            own_path[0] = '\0';
        }
    }
};

std::optional<Folder>& folder() {
    static std::optional<Folder> only;
    return only;
}

/// Several threads may be the first to ask.
Folder& made_once(const Group& group) {
    static std::once_flag made;
    std::call_once(made, [&] { folder().emplace(group); });
    return *folder();
}

} // namespace

/// A child of the folder's owner gets its own subfolder.
std::string scratch_folder(const Group& group) {
    const Folder& only = made_once(group);
    if (only.process == getpid())
        return only.path;
    const fs::path own = fs::path(only.path) / std::to_string(getpid());
    fs::create_directories(own);
    return own;
}

std::string process_name() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return std::string(host.data()) + "_" + std::to_string(getpid());
}

void clear_scratch_of(pid_t process) {
    std::error_code ignored;
    if (folder())
        fs::remove_all(fs::path(folder()->path) / std::to_string(process), ignored);
}

/// Another process removes it: removing a tree allocates, which a signal handler must not.
void clear_scratch_at_once() {
    if (own_path[0] == '\0')
        return;
    const pid_t remover = _Fork();
    if (remover == 0) {
        execl("/bin/rm", "rm", "-rf", "--", own_path.data(), static_cast<char*>(nullptr));
        _exit(EXIT_FAILURE);
    }
    while (remover > 0 && waitpid(remover, nullptr, 0) < 0 && errno == EINTR) {
    }
}

std::string lasting_scratch_file(const std::string& name) {
    return folder() ? fs::path(folder()->path) / (std::to_string(getpid()) + "_" + name) : fs::path(name);
}

} // namespace truestep::gate

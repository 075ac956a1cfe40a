#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

/// The calls that traces and checkpoints make of a file system. A test can replace the disk, end a
/// writer at any call, and lose what was not synced. Names and promises are POSIX's.
namespace truestep::storage {

/// A file to be read. Its functions may be called from several threads.
class InputFile {
  public:
    virtual ~InputFile() = default;

    /// The size when the file was opened.
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// Returns how many bytes were read. Fewer than asked for are no error; none mean the end of
    /// the file.
    [[nodiscard]] virtual std::size_t read(std::uint64_t offset, std::span<std::byte> bytes,
                                           std::error_code& error) const = 0;
};

/// A file to be written from front to back. Its destructor closes it at the latest.
class OutputFile {
  public:
    virtual ~OutputFile() = default;

    /// Returns how many bytes were written. Fewer than given are no error; another call writes the
    /// rest.
    [[nodiscard]] virtual std::size_t write(std::span<const std::byte> bytes, std::error_code& error) = 0;
    /// Makes the written bytes survive a crash of the machine. The name survives with its folder's
    /// sync.
    [[nodiscard]] virtual std::error_code sync() = 0;
    [[nodiscard]] virtual std::error_code close() = 0;
};

/// The path where a file's bytes are written, and the name that they get when they are complete.
struct Destination {
    std::filesystem::path first;
    std::filesystem::path last;

    [[nodiscard]] bool in_place() const { return first == last; }
};

enum class FileKind : std::uint8_t { none, file, folder, other };

class FileSystem {
  public:
    using Path = std::filesystem::path;

    virtual ~FileSystem() = default;

    [[nodiscard]] virtual FileKind kind(const Path& path) const = 0;
    /// Every writer of a file that a user has named asks here first. A regular or new file is
    /// written beside its name, at the end of all links, and renamed. Anything else (a device, a
    /// pipe, what is open as /dev/stdout or /dev/fd/3) is written in place: a rename would replace
    /// it.
    [[nodiscard]] virtual Destination destination(const Path& path) const = 0;
    /// Null after an error. Opening a pipe would wait for its writer: ask for the kind first.
    [[nodiscard]] virtual std::unique_ptr<InputFile> open(const Path& path,
                                                          std::error_code& error) const = 0;
    /// The names in a folder, in any order.
    [[nodiscard]] virtual std::vector<std::string> list(const Path& folder,
                                                        std::error_code& error) const = 0;

    /// Creates a file, or empties an existing one. Null after an error.
    [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) = 0;
    [[nodiscard]] virtual std::error_code make_folder(const Path& path) = 0;
    /// Replaces an existing file of that name.
    [[nodiscard]] virtual std::error_code rename(const Path& from, const Path& to) = 0;
    /// Exchanges two names atomically.
    [[nodiscard]] virtual std::error_code exchange(const Path& first, const Path& second) = 0;
    /// Removes a file, a link (not its target) or an empty folder.
    [[nodiscard]] virtual std::error_code remove(const Path& path) = 0;
    /// Makes the names in a folder survive a crash: what was created, renamed and removed there.
    [[nodiscard]] virtual std::error_code sync_folder(const Path& folder) = 0;
};

/// The real file system.
[[nodiscard]] FileSystem& disk();

/// Makes a folder PARENT/NAME-XXXXXX. This process and its forks hold it by a lock as long as one
/// of them lives. Returns "" if no folder can be made.
[[nodiscard]] std::string make_scratch_folder(const FileSystem::Path& parent, const std::string& name);
/// Removes the scratch folders that no process holds, because their makers were killed. Not for a
/// folder that machines share, where a lock may hold on one machine alone.
void remove_abandoned_folders(const FileSystem::Path& parent, const std::string& name);

/// Writes until all bytes are written or an error occurs. Returns how many were written.
[[nodiscard]] std::size_t write_all(OutputFile& file, std::span<const std::byte> bytes,
                                    std::error_code& error);

/// Removes a path with its contents. A missing path is not an error.
[[nodiscard]] std::error_code remove_all(FileSystem& files, const FileSystem::Path& path);

/// Throws Error, "PATH: WHAT: the system's words; ADVICE", if there is an error.
void require_none(const std::error_code& error, const FileSystem::Path& path, const std::string& what,
                  const std::string& advice = "check the disk");

/// Makes a folder and its missing parents so that they survive a crash. Throws Error.
void make_lasting_folder(FileSystem& files, const FileSystem::Path& folder);

} // namespace truestep::storage

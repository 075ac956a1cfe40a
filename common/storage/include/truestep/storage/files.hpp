#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

/// What traces and checkpoints ask of a file system, and no more: a test can put one of its own in the
/// disk's place, end a writer at any call, and lose what was not synced. The words are POSIX's, and so is
/// what they promise.
namespace truestep::storage {

/// A file to be read. Its functions may be called from several threads.
class InputFile {
  public:
    virtual ~InputFile() = default;

    /// When it was opened.
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// How many bytes were read: fewer than asked for are no error, none are the end of the file.
    [[nodiscard]] virtual std::size_t read(std::uint64_t offset, std::span<std::byte> bytes,
                                           std::error_code& error) const = 0;
};

/// A file to be written from front to back. It is closed at the latest when it goes away.
class OutputFile {
  public:
    virtual ~OutputFile() = default;

    /// How many bytes were written: fewer than given are no error, the rest is for another call.
    [[nodiscard]] virtual std::size_t write(std::span<const std::byte> bytes, std::error_code& error) = 0;
    /// Makes what was written last, whatever happens to the machine. The name is its folder's to keep.
    [[nodiscard]] virtual std::error_code sync() = 0;
    [[nodiscard]] virtual std::error_code close() = 0;
};

/// Where a file's bytes are written, and the name that they get when they are whole.
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
    /// Every writer of a file that somebody has named asks here first. A regular file, and one that is not
    /// there yet, is written beside its name and renamed, at the end of all links. All else (a device, a
    /// pipe, what is open as /dev/stdout or /dev/fd/3) is written in place: a rename would replace it.
    [[nodiscard]] virtual Destination destination(const Path& path) const = 0;
    /// Null where there is an error. Opening a pipe would wait for its writer: ask for the kind first.
    [[nodiscard]] virtual std::unique_ptr<InputFile> open(const Path& path,
                                                          std::error_code& error) const = 0;
    /// The names in a folder, in any order.
    [[nodiscard]] virtual std::vector<std::string> list(const Path& folder,
                                                        std::error_code& error) const = 0;

    /// A new file, or one that was there and is now empty. Null where there is an error.
    [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) = 0;
    [[nodiscard]] virtual std::error_code make_folder(const Path& path) = 0;
    /// A file of that name is replaced.
    [[nodiscard]] virtual std::error_code rename(const Path& from, const Path& to) = 0;
    /// Two names change places, at once.
    [[nodiscard]] virtual std::error_code exchange(const Path& first, const Path& second) = 0;
    /// A file, a link (not what it leads to) or an empty folder.
    [[nodiscard]] virtual std::error_code remove(const Path& path) = 0;
    /// Makes the names in a folder last: what was created, renamed and removed there.
    [[nodiscard]] virtual std::error_code sync_folder(const Path& folder) = 0;
};

/// The real one.
[[nodiscard]] FileSystem& disk();

/// A new folder PARENT/NAME-XXXXXX, which this process and those that it forks hold by a lock as long as
/// one of them lives; "" where none can be made.
[[nodiscard]] std::string make_scratch_folder(const FileSystem::Path& parent, const std::string& name);
/// Removes those of them that no process holds: whoever made them was killed. Not in a folder that machines
/// share, where a lock may hold for one machine alone.
void remove_abandoned_folders(const FileSystem::Path& parent, const std::string& name);

/// Writes on until all is written or there is an error. How many bytes were.
[[nodiscard]] std::size_t write_all(OutputFile& file, std::span<const std::byte> bytes,
                                    std::error_code& error);

/// With all that is in it. That nothing is there is no error.
[[nodiscard]] std::error_code remove_all(FileSystem& files, const FileSystem::Path& path);

/// Throws Error, "PATH: WHAT: the system's words; ADVICE", where there is an error.
void require_none(const std::error_code& error, const FileSystem::Path& path, const std::string& what,
                  const std::string& advice = "check the disk");

/// Makes a folder and those above it where they are missing, so that they last. Throws Error.
void make_lasting_folder(FileSystem& files, const FileSystem::Path& folder);

} // namespace truestep::storage

#include <truestep/storage/files.hpp>

#include <truestep/problem/error.hpp>

namespace truestep::storage {

std::size_t write_all(OutputFile& file, std::span<const std::byte> bytes, std::error_code& error) {
    std::size_t written = 0;
    while (written < bytes.size() && !error)
        written += file.write(bytes.subspan(written), error);
    return written;
}

std::error_code remove_all(FileSystem& files, const FileSystem::Path& path) {
    std::error_code error = files.remove(path);
    if (error == std::errc::no_such_file_or_directory)
        return {};
    // POSIX allows either error.
    if (error != std::errc::directory_not_empty && error != std::errc::file_exists)
        return error;
    error.clear();
    for (const std::string& name : files.list(path, error))
        if (!error)
            error = remove_all(files, path / name);
    return error ? error : files.remove(path);
}

void require_none(const std::error_code& error, const FileSystem::Path& path, const std::string& what,
                  const std::string& advice) {
    if (error)
        throw Error(path.string() + ": " + what + ": " + error.message() + "; " + advice);
}

void make_lasting_folder(FileSystem& files, const FileSystem::Path& folder) {
    const bool missing = files.kind(folder) == FileKind::none;
    if (missing) {
        const FileSystem::Path above = FileSystem::Path(folder / "").parent_path().parent_path();
        make_lasting_folder(files, above.empty() ? "." : above);
        // Another rank may have been faster.
        if (const std::error_code error = files.make_folder(folder); error != std::errc::file_exists)
            require_none(error, folder, "the folder could not be made", "give one that can be written");
    }
    if (files.kind(folder) != FileKind::folder)
        throw Error(folder.string() + ": it is not a folder; give one that can be written");
    // Even a folder that was there may be of a process that ended before this point. A parent that
    // may not be read belongs to no folder made here.
    const FileSystem::Path parent = folder / "..";
    if (const std::error_code error = files.sync_folder(parent);
        missing || error != std::errc::permission_denied)
        require_none(error, parent, "could not be made to last");
}

} // namespace truestep::storage

#include <scape/storage/files.hpp>

namespace scape::storage {

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
    // POSIX leaves a system the choice.
    if (error != std::errc::directory_not_empty && error != std::errc::file_exists)
        return error;
    error.clear();
    for (const std::string& name : files.list(path, error))
        if (!error)
            error = remove_all(files, path / name);
    return error ? error : files.remove(path);
}

} // namespace scape::storage

// Reads, writes and syncs files on the machine's disks, and makes scratch folders with locks.
#include <truestep/storage/files.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace truestep::storage {

namespace {

namespace fs = std::filesystem;

std::error_code last_error() {
    return {errno, std::system_category()};
}

std::error_code error_of(int result) {
    return result == 0 ? std::error_code() : last_error();
}

/// Repeats a call that a signal has interrupted.
template <class Call>
auto again(const Call& call) {
    auto result = call();
    while (result < 0 && errno == EINTR)
        result = call();
    return result;
}

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0)
            ::close(number_);
    }

    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] std::error_code close() {
        const int number = number_;
        number_ = -1;
        return error_of(::close(number));
    }

  private:
    int number_;
};

class DiskInput : public InputFile {
  public:
    explicit DiskInput(int descriptor) : file_(descriptor) {}

    [[nodiscard]] std::error_code measure() {
        struct stat status {};
        const std::error_code error = error_of(::fstat(file_.number(), &status));
        size_ = static_cast<std::uint64_t>(status.st_size);
        return error;
    }
    [[nodiscard]] std::uint64_t size() const override { return size_; }
    [[nodiscard]] std::size_t read(std::uint64_t offset, std::span<std::byte> bytes,
                                   std::error_code& error) const override {
        const ssize_t count = again([&] {
            return ::pread(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        });
        error = count < 0 ? last_error() : std::error_code();
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }

  private:
    Descriptor file_;
    std::uint64_t size_ = 0;
};

class DiskOutput : public OutputFile {
  public:
    explicit DiskOutput(int descriptor) : file_(descriptor) {}

    [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
        const ssize_t count = again([&] { return ::write(file_.number(), bytes.data(), bytes.size()); });
        error = count < 0 ? last_error() : std::error_code();
        // A write of nothing without a reason would be repeated for ever.
        if (count == 0 && !bytes.empty())
            error = std::make_error_code(std::errc::io_error);
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }
    [[nodiscard]] std::error_code sync() override {
        return error_of(again([&] { return ::fsync(file_.number()); }));
    }
    [[nodiscard]] std::error_code close() override { return file_.close(); }

  private:
    Descriptor file_;
};

class Disk : public FileSystem {
  public:
    [[nodiscard]] FileKind kind(const Path& path) const override {
        std::error_code error;
        const fs::file_status status = fs::status(path, error);
        if (!fs::exists(status))
            return FileKind::none;
        if (fs::is_regular_file(status))
            return FileKind::file;
        return fs::is_directory(status) ? FileKind::folder : FileKind::other;
    }

    [[nodiscard]] Destination destination(const Path& path) const override {
        constexpr int most_links = 40; // Linux follows as many
        Path at = path;
        std::error_code error;
        // Follows links one by one: the last may lead to nothing yet, and one into /proc represents
        // an open file, which need not have a name.
        for (int links = 0; links <= most_links; ++links) {
            const Path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : ".", error);
            const fs::file_status there = fs::symlink_status(at, error);
            if (folder.string().starts_with("/proc/"))
                break;
            if (!fs::exists(there) || fs::is_regular_file(there))
                return {at.string() + ".partial", at};
            if (!fs::is_symlink(there))
                break;
            at = at.parent_path() / fs::read_symlink(at, error);
        }
        return {path, path};
    }

    [[nodiscard]] std::unique_ptr<InputFile> open(const Path& path, std::error_code& error) const override {
        const int descriptor = again([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
        if (descriptor < 0) {
            error = last_error();
            return nullptr;
        }
        auto file = std::make_unique<DiskInput>(descriptor);
        error = file->measure();
        return error ? nullptr : std::move(file);
    }

    [[nodiscard]] std::vector<std::string> list(const Path& folder, std::error_code& error) const override {
        std::vector<std::string> names;
        for (auto entry = fs::directory_iterator(folder, error);
             !error && entry != fs::directory_iterator(); entry.increment(error))
            names.push_back(entry->path().filename().string());
        return names;
    }

    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        constexpr mode_t everybody = 0666; // less the process's mask
        const int descriptor = again(
            [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, everybody); });
        error = descriptor < 0 ? last_error() : std::error_code();
        return error ? nullptr : std::make_unique<DiskOutput>(descriptor);
    }

    [[nodiscard]] std::error_code make_folder(const Path& path) override {
        constexpr mode_t everybody = 0777;
        return error_of(::mkdir(path.c_str(), everybody));
    }

    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        return error_of(std::rename(from.c_str(), to.c_str()));
    }

    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        return error_of(::renameat2(AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), RENAME_EXCHANGE));
    }

    [[nodiscard]] std::error_code remove(const Path& path) override {
        return error_of(std::remove(path.c_str()));
    }

    [[nodiscard]] std::error_code sync_folder(const Path& folder) override {
        const Descriptor opened(
            again([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
        return opened.number() < 0 ? last_error()
                                   : error_of(again([&] { return ::fsync(opened.number()); }));
    }
};

} // namespace

std::string make_scratch_folder(const FileSystem::Path& parent, const std::string& name) {
    // Until it holds its lock, another process may take the folder for abandoned.
    for (int attempt = 0; attempt < 100; ++attempt) {
        std::string path = (parent / (name + "-XXXXXX")).string();
        if (mkdtemp(path.data()) == nullptr)
            return {};
        const int held = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); // until the process ends
        if (held >= 0) // without locks no process takes a folder for abandoned
            static_cast<void>(again([&] { return ::flock(held, LOCK_EX); }));
        if (access(path.c_str(), F_OK) == 0)
            return path;
        ::close(held);
    }
    return {};
}

void remove_abandoned_folders(const FileSystem::Path& parent, const std::string& name) {
    std::error_code error;
    for (const std::string& found : disk().list(parent, error)) {
        if (!found.starts_with(name + "-"))
            continue;
        const fs::path folder = parent / found;
        const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (opened.number() >= 0 && ::flock(opened.number(), LOCK_EX | LOCK_NB) == 0)
            fs::remove_all(folder, error);
    }
}

FileSystem& disk() {
    static Disk files;
    return files;
}

} // namespace truestep::storage

// Known bugs of storage. Each is a file system that does what the bug would do above a right one.
#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <wrapped_files.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

namespace {

using truestep::storage::FileKind;
using truestep::storage::InputFile;
using truestep::storage::OutputFile;
using truestep::storage::WrappedFiles;

enum Number {
    none,
    rest_not_written,
    rest_not_read,
    end_not_seen,
    error_hidden,
    partial_stays,
    not_synced,
    links_replaced,
    links_followed,
    names_missed
};

/// Chooses how many bytes each call takes.
class Pieces {
  public:
    explicit Pieces(const Case& run) : run_(run) {}
    std::size_t next(std::size_t bytes) {
        const auto most = static_cast<std::size_t>(run_.piece);
        return most == 0 ? bytes : std::min(bytes, 1 + run_.random(For::pieces, {++calls_}) % most);
    }

  private:
    Case run_;
    std::uint64_t calls_ = 0;
};

/// The size of a file of tensors by its header; that of the file where this cannot be read.
std::uint64_t announced_size(const InputFile& file) {
    std::error_code error;
    std::uint64_t length = 0;
    const bool whole = file.read(0, std::as_writable_bytes(std::span(&length, 1)), error) == sizeof length;
    if (!whole || length > file.size())
        return file.size();
    std::string text(length, ' ');
    text.resize(file.read(sizeof length, std::as_writable_bytes(std::span(text)), error));
    const auto header = nlohmann::json::parse(text, nullptr, false);
    std::uint64_t end = 0;
    if (header.is_object())
        for (const auto& [name, entry] : header.items())
            if (entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                entry["data_offsets"].back().is_number_unsigned())
                end = std::max(end, entry["data_offsets"].back().get<std::uint64_t>());
    return header.is_object() ? sizeof length + length + end : file.size();
}

class Input final : public InputFile {
  public:
    Input(std::unique_ptr<InputFile> inner, int known_bug, const Case& run)
        : inner_(std::move(inner)), known_bug_(known_bug), pieces_(run) {}

    [[nodiscard]] std::uint64_t size() const override {
        return known_bug_ == end_not_seen ? announced_size(*inner_) : inner_->size();
    }
    [[nodiscard]] std::size_t read(std::uint64_t offset, std::span<std::byte> bytes,
                                   std::error_code& error) const override {
        const std::size_t count = inner_->read(offset, bytes.first(pieces_.next(bytes.size())), error);
        const bool is_end = count == 0 && known_bug_ == end_not_seen;
        return is_end || (count > 0 && known_bug_ == rest_not_read) ? bytes.size() : count;
    }

  private:
    std::unique_ptr<InputFile> inner_;
    int known_bug_;
    mutable Pieces pieces_;
};

class Output final : public truestep::storage::WrappedOutput {
  public:
    Output(std::unique_ptr<OutputFile> inner, int known_bug, const Case& run)
        : WrappedOutput(std::move(inner)), known_bug_(known_bug), pieces_(run) {}

    [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
        const std::size_t count = inner().write(bytes.first(pieces_.next(bytes.size())), error);
        const bool hidden = error && known_bug_ == error_hidden;
        if (hidden)
            error.clear();
        return hidden || known_bug_ == rest_not_written ? bytes.size() : count;
    }
    [[nodiscard]] std::error_code sync() override {
        return known_bug_ == not_synced ? std::error_code() : inner().sync();
    }

  private:
    int known_bug_;
    Pieces pieces_;
};

class FilesWithBug final : public WrappedFiles {
  public:
    FilesWithBug(FileSystem& inner, int known_bug, const Case& run)
        : WrappedFiles(inner), known_bug_(known_bug), run_(run) {}

    [[nodiscard]] truestep::storage::Destination destination(const Path& path) const override {
        return known_bug_ == links_replaced
                   ? truestep::storage::Destination{path.string() + ".partial", path}
                   : inner().destination(path);
    }
    [[nodiscard]] std::unique_ptr<InputFile> open(const Path& path, std::error_code& error) const override {
        auto file = inner().open(path, error);
        return file ? std::make_unique<Input>(std::move(file), known_bug_, run_) : nullptr;
    }
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        auto file = inner().create(path, error);
        return file ? std::make_unique<Output>(std::move(file), known_bug_, run_) : nullptr;
    }
    [[nodiscard]] std::vector<std::string> list(const Path& folder, std::error_code& error) const override {
        std::vector<std::string> names = inner().list(folder, error);
        if (known_bug_ == names_missed && names.size() > 1)
            names.pop_back();
        return names;
    }
    [[nodiscard]] std::error_code remove(const Path& path) override {
        if (known_bug_ == partial_stays && path.extension() == ".partial")
            return {};
        if (known_bug_ == links_followed && std::filesystem::is_symlink(path) &&
            inner().kind(path) == FileKind::folder)
            for (const auto& entry : std::filesystem::directory_iterator(path))
                std::filesystem::remove_all(entry.path());
        return inner().remove(path);
    }

  private:
    int known_bug_;
    Case run_;
};

} // namespace

std::unique_ptr<FileSystem> Implementation::over(FileSystem& inner, const Case& run) const {
    return std::make_unique<FilesWithBug>(inner, known_bug_, run);
}

Path Implementation::folder() const {
    // Links in it may be absolute, and each process has its own.
    const Path folder = std::filesystem::absolute(gate::scratch_folder(*group_)) /
                        ("storage-" + gate::process_name() + "-" + std::to_string(++folders_));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
}

std::vector<problem::KnownBug> known_bugs() {
    return {
        {rest_not_written, "the rest of a short write is lost", "Needs a disk that takes pieces."},
        {rest_not_read, "the rest of a short read is what was there", "Needs a disk that gives pieces."},
        {end_not_seen, "the end of a file is not looked at",
         "One that is cut, or longer, is read like a whole one."},
        {error_hidden, "a failed write is not reported", "The file is incomplete under its own name."},
        {partial_stays, "a partial file stays", "After a write that failed."},
        {not_synced, "a file is not synced before its new name",
         "A crash of the machine leaves its name without its bytes."},
        {links_replaced, "a link becomes a file", "The file that it led to stays unchanged."},
        {links_followed, "a removal goes through links", "Needs a link to a folder in what is removed."},
        {names_missed, "the last name of a folder is missed", "Files are there and not found."}};
}

} // namespace truestep::properties::storage

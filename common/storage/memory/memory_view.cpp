// Shows the files in memory to each rank as a file system, and records its operations.
#include "memory_files.hpp"

#include <algorithm>
#include <cstring>

namespace truestep::storage::memory {

class Files::Input : public InputFile {
  public:
    explicit Input(std::string contents) : contents_(std::move(contents)) {}
    [[nodiscard]] std::uint64_t size() const override { return contents_.size(); }
    [[nodiscard]] std::size_t read(std::uint64_t offset, std::span<std::byte> bytes,
                                   std::error_code& error) const override {
        error.clear();
        const std::size_t begin = std::min<std::size_t>(offset, contents_.size());
        const std::size_t count = std::min(bytes.size(), contents_.size() - begin);
        std::memcpy(bytes.data(), contents_.data() + begin, count);
        return count;
    }

  private:
    std::string contents_;
};

class Files::Output : public OutputFile {
  public:
    using Kind = Operation::Kind;

    Output(Files& files, Operation operation, std::function<std::uint64_t()> meetings)
        : files_(files), operation_(std::move(operation)), meetings_(std::move(meetings)) {}
    [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
        const std::size_t count = std::min(bytes.size(), files_.largest_write_);
        error = apply(Kind::write, {reinterpret_cast<const char*>(bytes.data()), count});
        return error ? 0 : count;
    }
    [[nodiscard]] std::error_code sync() override { return apply(Kind::sync, ""); }
    [[nodiscard]] std::error_code close() override { return {}; }

  private:
    [[nodiscard]] std::error_code apply(Kind kind, std::string bytes) {
        Operation operation = operation_;
        operation.kind = kind;
        operation.bytes = std::move(bytes);
        operation.meetings = meetings_ ? meetings_() : 0;
        return files_.apply(std::move(operation));
    }

    Files& files_;
    Operation operation_;
    std::function<std::uint64_t()> meetings_;
};

class Files::ObservedState : public FileSystem {
  public:
    using Kind = Operation::Kind;

    ObservedState(Files& files, int rank, std::function<std::uint64_t()> meetings)
        : files_(files), rank_(rank), meetings_(std::move(meetings)) {}

    [[nodiscard]] FileKind kind(const Path& path) const override {
        const std::lock_guard lock(files_.mutex_);
        return files_.state_.kind(path);
    }
    [[nodiscard]] Destination destination(const Path& path) const override {
        return {path.string() + ".partial", path};
    }
    [[nodiscard]] std::unique_ptr<InputFile> open(const Path& path, std::error_code& error) const override {
        const std::lock_guard lock(files_.mutex_);
        const std::string* contents = files_.state_.contents(path);
        error = contents == nullptr ? std::make_error_code(std::errc::no_such_file_or_directory)
                                    : std::error_code();
        return contents == nullptr ? nullptr : std::make_unique<Input>(*contents);
    }
    [[nodiscard]] std::vector<std::string> list(const Path& folder, std::error_code& error) const override {
        const std::lock_guard lock(files_.mutex_);
        auto names = files_.state_.list(folder);
        if (names) // backwards: nobody may count on an order
            std::ranges::reverse(*names);
        error = names ? std::error_code() : std::make_error_code(std::errc::no_such_file_or_directory);
        return names.value_or(std::vector<std::string>());
    }
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        Operation operation{rank_, Kind::create, path.string(), "", "", 0, meetings()};
        {
            const std::lock_guard lock(files_.mutex_);
            operation.handle = ++files_.handles_;
        }
        error = files_.apply(operation);
        return error ? nullptr : std::make_unique<Output>(files_, operation, meetings_);
    }
    [[nodiscard]] std::error_code make_folder(const Path& path) override {
        return files_.apply({rank_, Kind::make_folder, path.string(), "", "", 0, meetings()});
    }
    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        return files_.apply({rank_, Kind::rename, from.string(), to.string(), "", 0, meetings()});
    }
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        return files_.apply({rank_, Kind::exchange, first.string(), second.string(), "", 0, meetings()});
    }
    [[nodiscard]] std::error_code remove(const Path& path) override {
        return files_.apply({rank_, Kind::remove, path.string(), "", "", 0, meetings()});
    }
    [[nodiscard]] std::error_code sync_folder(const Path& folder) override {
        return files_.apply({rank_, Kind::sync_folder, folder.string(), "", "", 0, meetings()});
    }

  private:
    [[nodiscard]] std::uint64_t meetings() const { return meetings_ ? meetings_() : 0; }

    Files& files_;
    int rank_;
    std::function<std::uint64_t()> meetings_;
};

std::unique_ptr<FileSystem> Files::rank(int rank, std::function<std::uint64_t()> meetings) {
    return std::make_unique<ObservedState>(*this, rank, std::move(meetings));
}

std::error_code Files::apply(Operation operation) {
    const std::lock_guard lock(mutex_);
    const std::error_code error = state_.apply(operation);
    if (!error)
        operations_.push_back(std::move(operation));
    return error;
}

void Files::note(int rank, const std::string& text, std::uint64_t meetings) {
    static_cast<void>(apply({rank, Operation::Kind::note, text, "", "", 0, meetings}));
}

} // namespace truestep::storage::memory

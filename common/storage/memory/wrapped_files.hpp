#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <truestep/storage/files.hpp>

namespace truestep::storage {

/// Passes every call to another file system. Derived classes change some.
class WrappedFiles : public FileSystem {
  public:
    explicit WrappedFiles(FileSystem& inner) : inner_(inner) {}

    [[nodiscard]] FileKind kind(const Path& path) const override { return inner_.kind(path); }
    [[nodiscard]] Destination destination(const Path& path) const override {
        return inner_.destination(path);
    }
    [[nodiscard]] std::unique_ptr<InputFile> open(const Path& path, std::error_code& error) const override {
        return inner_.open(path, error);
    }
    [[nodiscard]] std::vector<std::string> list(const Path& folder, std::error_code& error) const override {
        return inner_.list(folder, error);
    }
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        return inner_.create(path, error);
    }
    [[nodiscard]] std::error_code make_folder(const Path& path) override {
        return inner_.make_folder(path);
    }
    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        return inner_.rename(from, to);
    }
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        return inner_.exchange(first, second);
    }
    [[nodiscard]] std::error_code remove(const Path& path) override { return inner_.remove(path); }
    [[nodiscard]] std::error_code sync_folder(const Path& folder) override {
        return inner_.sync_folder(folder);
    }

  protected:
    [[nodiscard]] FileSystem& inner() const { return inner_; }

  private:
    FileSystem& inner_;
};

class WrappedOutput : public OutputFile {
  public:
    explicit WrappedOutput(std::unique_ptr<OutputFile> inner) : inner_(std::move(inner)) {}

    [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
        return inner_->write(bytes, error);
    }
    [[nodiscard]] std::error_code sync() override { return inner_->sync(); }
    [[nodiscard]] std::error_code close() override { return inner_->close(); }

  protected:
    [[nodiscard]] OutputFile& inner() const { return *inner_; }

  private:
    std::unique_ptr<OutputFile> inner_;
};

/// Asks before every call that changes something, and returns an error that it gets. Before a write
/// it passes the bytes and the file, of which the callee may write some first.
class WatchedFiles : public WrappedFiles {
  public:
    using Before = std::function<std::error_code(OutputFile*, std::span<const std::byte>)>;

    WatchedFiles(FileSystem& inner, Before before) : WrappedFiles(inner), before_(std::move(before)) {}

    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        error = before_(nullptr, {});
        auto file = error ? nullptr : inner().create(path, error);
        return file ? std::make_unique<Output>(std::move(file), before_) : nullptr;
    }
    [[nodiscard]] std::error_code make_folder(const Path& path) override {
        const std::error_code error = before_(nullptr, {});
        return error ? error : inner().make_folder(path);
    }
    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        const std::error_code error = before_(nullptr, {});
        return error ? error : inner().rename(from, to);
    }
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        const std::error_code error = before_(nullptr, {});
        return error ? error : inner().exchange(first, second);
    }
    [[nodiscard]] std::error_code remove(const Path& path) override {
        const std::error_code error = before_(nullptr, {});
        return error ? error : inner().remove(path);
    }
    [[nodiscard]] std::error_code sync_folder(const Path& folder) override {
        const std::error_code error = before_(nullptr, {});
        return error ? error : inner().sync_folder(folder);
    }

  private:
    class Output : public WrappedOutput {
      public:
        Output(std::unique_ptr<OutputFile> inner, Before before)
            : WrappedOutput(std::move(inner)), before_(std::move(before)) {}
        [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
            error = before_(&inner(), bytes);
            return error ? 0 : inner().write(bytes, error);
        }
        [[nodiscard]] std::error_code sync() override {
            const std::error_code error = before_(nullptr, {});
            return error ? error : WrappedOutput::sync();
        }
        [[nodiscard]] std::error_code close() override { // a file is closed even where that fails
            const std::error_code error = before_(nullptr, {});
            const std::error_code closed = WrappedOutput::close();
            return error ? error : closed;
        }

      private:
        Before before_;
    };

    Before before_;
};

} // namespace truestep::storage

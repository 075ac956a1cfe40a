// Holds checkpoint writers with known bugs, such as missing syncs, for the crash tests to catch.
#include "planted_writers.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

#include "wrapped_files.hpp"

namespace truestep::distributed::scape::crash {

namespace {

using storage::FileKind;
using storage::OutputFile;
using storage::WrappedFiles;
using storage::WrappedOutput;
using Path = FileSystem::Path;

bool is_partial(const Path& path) {
    return path.string().ends_with(".partial");
}

/// Some files are never synced.
class UnsyncedFiles : public WrappedFiles {
  public:
    UnsyncedFiles(FileSystem& inner, std::string those) : WrappedFiles(inner), those_(std::move(those)) {}

    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        class Output : public WrappedOutput {
          public:
            using WrappedOutput::WrappedOutput;
            [[nodiscard]] std::error_code sync() override { return {}; }
        };
        auto file = inner().create(path, error);
        if (file && path.filename().string().starts_with(those_))
            return std::make_unique<Output>(std::move(file));
        return file;
    }

  private:
    std::string those_;
};

/// Some syncs of folders are forgotten.
class UnsyncedFolders : public WrappedFiles {
  public:
    using Which = std::function<bool(const Path& folder, bool exchanged, const FileSystem& files)>;

    UnsyncedFolders(FileSystem& inner, Which which) : WrappedFiles(inner), which_(std::move(which)) {}

    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        exchanged_ = true;
        return inner().exchange(first, second);
    }
    [[nodiscard]] std::error_code sync_folder(const Path& path) override {
        return which_(path, exchanged_, inner()) ? std::error_code() : inner().sync_folder(path);
    }

  private:
    Which which_;
    bool exchanged_ = false;
};

/// Removes the old checkpoint before the new one's name is safe: an early version of the writer did
/// this.
class RemovesTooEarly : public WrappedFiles {
  public:
    using WrappedFiles::WrappedFiles;

    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        old_ = first;
        return inner().exchange(first, second);
    }
    [[nodiscard]] std::error_code sync_folder(const Path& path) override {
        if (!old_.empty())
            static_cast<void>(remove_all(inner(), std::exchange(old_, "")));
        return inner().sync_folder(path);
    }

  private:
    Path old_;
};

class RemovesThenRenames : public WrappedFiles {
  public:
    using WrappedFiles::WrappedFiles;
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        const std::error_code error = remove_all(inner(), second);
        return error ? error : inner().rename(first, second);
    }
};

class RenamesTwice : public WrappedFiles {
  public:
    using WrappedFiles::WrappedFiles;
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        const std::error_code error = inner().rename(second, second.string() + ".old");
        return error ? error : inner().rename(first, second);
    }
};

/// Writes everything under the checkpoint's own name from the beginning.
class WritesInPlace : public WrappedFiles {
  public:
    using WrappedFiles::WrappedFiles;

    [[nodiscard]] FileKind kind(const Path& path) const override {
        return is_checkpoint(path) ? FileKind::none : inner().kind(place(path));
    }
    [[nodiscard]] std::unique_ptr<storage::InputFile> open(const Path& path,
                                                           std::error_code& error) const override {
        return inner().open(place(path), error);
    }
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        return inner().create(place(path), error);
    }
    [[nodiscard]] std::error_code make_folder(const Path& path) override {
        const std::error_code error = inner().make_folder(place(path));
        return error == std::errc::file_exists ? std::error_code() : error;
    }
    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        return is_checkpoint(to) ? std::error_code() : inner().rename(place(from), place(to));
    }
    [[nodiscard]] std::error_code remove(const Path& path) override { return inner().remove(place(path)); }
    [[nodiscard]] std::error_code sync_folder(const Path& path) override {
        return inner().sync_folder(place(path));
    }

  private:
    static bool is_checkpoint(const Path& path) {
        return path.parent_path() == folder && path.filename().string().starts_with("step-");
    }
    static Path place(const Path& path) {
        std::string text = path.string();
        if (const std::size_t at = text.find(".partial"); text.find("step-") < at &&
                                                          at != std::string::npos &&
                                                          Path(text.substr(0, at)).parent_path() == folder)
            text.erase(at, std::string(".partial").size());
        return text;
    }
};

/// Holds some files' bytes back, and writes them when the folder has its name.
class WritesLate : public WrappedFiles {
  public:
    struct SharedFiles {
        std::mutex mutex;
        std::map<std::string, std::string> files; // of all ranks
    };

    WritesLate(FileSystem& inner, std::string those, std::shared_ptr<SharedFiles> held)
        : WrappedFiles(inner), those_(std::move(those)), held_(std::move(held)) {}

    [[nodiscard]] FileKind kind(const Path& path) const override {
        const std::lock_guard lock(held_->mutex);
        return held_->files.contains(path.string()) ? FileKind::file : inner().kind(path);
    }
    [[nodiscard]] std::unique_ptr<storage::InputFile> open(const Path& path,
                                                           std::error_code& error) const override {
        const std::lock_guard lock(held_->mutex);
        if (const auto found = held_->files.find(path.string()); found != held_->files.end())
            return Files(State({{"/held", found->second}})).rank(0)->open("/held", error);
        return inner().open(path, error);
    }
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        if (!path.filename().string().starts_with(those_))
            return inner().create(path, error);
        error.clear();
        const std::lock_guard lock(held_->mutex);
        held_->files[path.string()] = "";
        return std::make_unique<Output>(*held_, path.string());
    }
    [[nodiscard]] std::error_code rename(const Path& from, const Path& to) override {
        {
            const std::lock_guard lock(held_->mutex);
            if (auto node = held_->files.extract(from.string())) {
                node.key() = to.string();
                held_->files.insert(std::move(node));
                return {};
            }
        }
        const std::error_code error = inner().rename(from, to);
        return error || from.parent_path() != folder ? error : write(from, to);
    }
    [[nodiscard]] std::error_code exchange(const Path& first, const Path& second) override {
        const std::error_code error = inner().exchange(first, second);
        return error ? error : write(first, second);
    }

  private:
    class Output : public OutputFile {
      public:
        Output(SharedFiles& held, std::string path) : held_(held), path_(std::move(path)) {}
        [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, std::error_code& error) override {
            error.clear();
            const std::lock_guard lock(held_.mutex);
            held_.files[path_].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            return bytes.size();
        }
        [[nodiscard]] std::error_code sync() override { return {}; }
        [[nodiscard]] std::error_code close() override { return {}; }

      private:
        SharedFiles& held_;
        std::string path_;
    };

    [[nodiscard]] std::error_code write(const Path& partial, const Path& finished) {
        const std::lock_guard lock(held_->mutex);
        std::error_code error;
        for (const auto& [path, contents] : held_->files)
            if (Path(path).parent_path() == partial && !error) {
                const auto file = inner().create(finished / Path(path).filename(), error);
                static_cast<void>(write_all(*file, std::as_bytes(std::span(contents)), error));
                if (!error)
                    error = file->sync();
            }
        held_->files.clear();
        return error ? error : inner().sync_folder(finished);
    }

    std::string those_;
    std::shared_ptr<SharedFiles> held_;
};

/// Takes a short write for a complete one.
class ForgetsTheRest : public WrappedFiles {
  public:
    using WrappedFiles::WrappedFiles;
    [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path, std::error_code& error) override {
        class Output : public WrappedOutput {
          public:
            using WrappedOutput::WrappedOutput;
            [[nodiscard]] std::size_t write(std::span<const std::byte> bytes,
                                            std::error_code& error) override {
                static_cast<void>(inner().write(bytes, error));
                return error ? 0 : bytes.size();
            }
        };
        auto file = inner().create(path, error);
        return file ? std::make_unique<Output>(std::move(file)) : nullptr;
    }
};

template <class KnownBug, class... Arguments>
Layer layer(Arguments... arguments) {
    return [=](FileSystem& inner) { return std::make_unique<KnownBug>(inner, arguments...); };
}

Layer folders(UnsyncedFolders::Which which) {
    return layer<UnsyncedFolders>(std::move(which));
}

} // namespace

const std::vector<Planted>& planted_writers() {
    static const std::vector<Planted> all{
        {"a rank's file is not synced", layer<UnsyncedFiles>(std::string("rank-")),
         "sync folder /home/new/checkpoints"},
        {"the manifest is not synced", layer<UnsyncedFiles>(std::string("manifest")),
         "sync folder /home/new/checkpoints"},
        {"the checkpoint's own folder is not synced",
         folders([](const Path& path, bool, const FileSystem&) { return is_partial(path); }),
         "sync folder /home/new/checkpoints"},
        {"the folder is not synced after the rename",
         folders([](const Path& path, bool, const FileSystem&) { return path == folder; }), "done 0"},
        {"the folder above a new one is not synced",
         folders([](const Path& path, bool, const FileSystem&) { return path.filename() == ".."; }),
         "done 0"},
        {"the old one is removed before the new one's name lasts", layer<RemovesTooEarly>(),
         "remove /home/new/checkpoints/step-0000000001.partial/rank-0000.safetensors"},
        {"a left-over is removed before the names last",
         folders([](const Path& path, bool exchanged, const FileSystem& files) {
             if (path != folder || exchanged)
                 return false;
             std::error_code error;
             const auto names = files.list(folder, error); // a sync while a left-over exists
             return std::ranges::any_of(names, [](const std::string& name) { return is_partial(name); });
         }),
         "remove /home/new/checkpoints/step-0000000002.partial/manifest.json"},
        {"the old one is removed, then the new one renamed", layer<RemovesThenRenames>(),
         "remove /home/new/checkpoints/step-0000000001/rank-0000.safetensors"},
        {"two renames in place of an exchange", layer<RenamesTwice>(),
         "rename /home/new/checkpoints/step-0000000001.partial to /home/new/checkpoints/step-0000000001"},
        {"written under its own name from the beginning", layer<WritesInPlace>(),
         "bytes to /home/new/checkpoints/step-0000000001/manifest.json"},
        {"renamed before the ranks' files are written",
         layer<WritesLate>(std::string("rank-"), std::make_shared<WritesLate::SharedFiles>()),
         "create /home/new/checkpoints/step-0000000001/rank-0000.safetensors"},
        {"renamed before the manifest is written",
         layer<WritesLate>(std::string("manifest"), std::make_shared<WritesLate::SharedFiles>()),
         "bytes to /home/new/checkpoints/step-0000000001/manifest.json"},
        {"a short write is taken for a whole one", layer<ForgetsTheRest>(),
         "sync folder /home/new/checkpoints", 100},
    };
    return all;
}

} // namespace truestep::distributed::scape::crash

#include <truestep/storage/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>

#include "format.hpp"
#include "header.hpp"

namespace truestep::storage {

// Elements are copied between file and memory as they are, and the format is little-endian.
static_assert(std::endian::native == std::endian::little);

namespace {

/// Checks that the tensors, sorted by their data, follow one another and fill the data section.
void check_coverage(const std::filesystem::path& path, const std::vector<TensorEntry>& tensors,
                    std::uint64_t data_offset, std::uint64_t data_size) {
    const auto check_gap = [&](std::uint64_t begin, std::uint64_t end) {
        if (begin < end) {
            fail(path, data_offset + begin,
                 "no tensor covers the bytes " + range_text(begin, end) + " of the data section",
                 "expected tensors without gaps up to the end of the file");
        }
    };
    const TensorEntry* previous = nullptr;
    std::uint64_t covered = 0;
    for (const TensorEntry& entry : tensors) {
        if (entry.begin < covered) {
            fail(path, entry.header_offset,
                 tensor(entry.name) + " at " + range_text(entry.begin, entry.end) + " overlaps " +
                     tensor(previous->name) + " at " + range_text(previous->begin, previous->end),
                 "expected tensors one after the other");
        }
        check_gap(covered, entry.begin);
        covered = entry.end;
        previous = &entry;
    }
    check_gap(covered, data_size);
}

std::unique_ptr<const InputFile> open_to_read(const std::filesystem::path& path, const FileSystem& files) {
    constexpr const char* expected = "expected a readable safetensors file";
    const FileKind kind = files.kind(path);
    // Opening a pipe would wait for its writer.
    if (kind == FileKind::folder || kind == FileKind::other) {
        fail(path, 0, kind == FileKind::folder ? "is a directory" : "is not a regular file", expected);
    }
    std::error_code error;
    std::unique_ptr<const InputFile> file = files.open(path, error);
    if (error) {
        fail(path, 0, "cannot be opened: " + error.message(), expected);
    }
    return file;
}

} // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, const FileSystem& files)
    : SafetensorsFile(path, open_to_read(path, files)) {}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, std::unique_ptr<const InputFile> file)
    : path_(std::move(path)), file_(std::move(file)) {
    const std::uint64_t file_size = file_->size();
    if (file_size < length_size) {
        fail(path_, file_size, "the file ends after " + bytes_text(file_size),
             "expected the 8 bytes of the header's length; the file is truncated");
    }
    std::uint64_t length = 0;
    read_bytes(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > header_limit) {
        fail(path_, 0, "the header's length is " + bytes_text(length),
             "expected at most " + bytes_text(header_limit) +
                 "; the file is damaged or not a safetensors file, as traces and checkpoints are");
    }
    if (length > file_size - length_size) {
        fail(path_, file_size, "the file ends inside its header of " + bytes_text(length),
             "expected at least " + bytes_text(length_size + length) + "; the file is truncated");
    }
    data_offset_ = length_size + length;
    std::string text(length, '\0');
    read_bytes(length_size, std::as_writable_bytes(std::span(text)));

    Header header = read_header(path_, std::move(text), file_size - data_offset_);
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);

    std::ranges::sort(tensors_, {}, [](const TensorEntry& entry) {
        return std::tuple(entry.begin, entry.end, entry.header_offset);
    });
    by_name_.resize(tensors_.size());
    std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
    std::ranges::sort(by_name_, {}, [this](std::size_t index) {
        return std::tuple(std::string_view(tensors_[index].name), tensors_[index].header_offset);
    });
    for (std::size_t index = 1; index < by_name_.size(); ++index) {
        const TensorEntry& entry = tensors_[by_name_[index]];
        if (entry.name == tensors_[by_name_[index - 1]].name) {
            fail(path_, entry.header_offset, tensor(entry.name) + " is given twice",
                 "expected distinct names");
        }
    }
    check_coverage(path_, tensors_, data_offset_, file_size - data_offset_);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
    const auto name_at = [this](std::size_t index) { return std::string_view(tensors_[index].name); };
    const auto found = std::ranges::lower_bound(by_name_, name, {}, name_at);
    return found != by_name_.end() && name_at(*found) == name ? &tensors_[*found] : nullptr;
}

void SafetensorsFile::read_bytes(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        std::error_code error;
        const std::size_t count = file_->read(offset, bytes, error);
        if (error) {
            fail(path_, offset, "cannot be read: " + error.message(),
                 "expected " + bytes_text(bytes.size()));
        }
        if (count == 0) {
            fail(path_, offset, "the file ends here, it has shrunk since it was opened",
                 "expected another " + bytes_text(bytes.size()));
        }
        bytes = bytes.subspan(count);
        offset += count;
    }
}

template <typename Element>
std::vector<Element> SafetensorsFile::read(std::string_view name, DataType type) const {
    const TensorEntry* const entry = find(name);
    if (entry == nullptr) {
        fail(path_, length_size, "the header has no " + tensor(name),
             "expected it among the " + std::to_string(tensors_.size()) + " tensors");
    }
    if (entry->type != type) {
        fail(path_, entry->header_offset,
             tensor(name) + " has dtype " + std::string(storage::name(entry->type)),
             "expected " + std::string(storage::name(type)));
    }
    std::vector<Element> elements(entry->element_count());
    read_bytes(data_offset_ + entry->begin, std::as_writable_bytes(std::span(elements)));
    return elements;
}

void SafetensorsFile::read_raw(const TensorEntry& entry, std::uint64_t offset,
                               std::span<std::byte> bytes) const {
    const std::uint64_t size = entry.end - entry.begin;
    if (offset > size || bytes.size() > size - offset) {
        fail(path_, entry.header_offset,
             tensor(entry.name) + " has " + bytes_text(size) + ", and is read beyond them",
             "expected a part of it");
    }
    read_bytes(data_offset_ + entry.begin + offset, bytes);
}

std::vector<float> SafetensorsFile::read_f32(std::string_view name) const {
    return read<float>(name, DataType::f32);
}

std::vector<double> SafetensorsFile::read_f64(std::string_view name) const {
    return read<double>(name, DataType::f64);
}

std::vector<std::uint8_t> SafetensorsFile::read_u8(std::string_view name) const {
    return read<std::uint8_t>(name, DataType::u8);
}

std::vector<std::uint64_t> SafetensorsFile::read_u64(std::string_view name) const {
    return read<std::uint64_t>(name, DataType::u64);
}

} // namespace truestep::storage

#include <truestep/storage/safetensors.hpp>

#include <bit>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "format.hpp"

namespace truestep::storage {

// Elements are copied between memory and file as they are, and the format is little-endian.
static_assert(std::endian::native == std::endian::little);

namespace {

/// The text as JSON for the header.
std::string encode(const std::filesystem::path& path, std::uint64_t offset, const nlohmann::json& text) {
    try {
        return text.dump();
    } catch (const nlohmann::json::type_error&) {
        fail(path, offset, "a name or metadata is not valid UTF-8", "give UTF-8 text");
    }
}

} // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::map<std::string, std::string>& metadata, FileSystem& files)
    : files_(files), path_(std::move(path)), destination_(files_.destination(path_)), header_("{") {
    if (!metadata.empty()) {
        header_ += encode(path_, length_size, std::string(metadata_key)) + ":" +
                   encode(path_, length_size, metadata);
    }
    std::error_code error;
    file_ = files_.create(destination_.first, error);
    if (error) {
        fail(destination_.first, 0, "cannot be created: " + error.message(),
             "expected a file, or a new name in a folder that can be written to");
    }
}

SafetensorsWriter::~SafetensorsWriter() {
    if (!finished_) {
        file_.reset();
        if (!destination_.in_place())
            static_cast<void>(files_.remove(destination_.first)); // it must not pass for complete
    }
}

void SafetensorsWriter::declare(std::string name, DataType type, std::vector<std::uint64_t> shape) {
    const std::uint64_t begin = declared_.empty() ? 0 : declared_.back().end;
    const std::string separator = header_.size() > 1 ? "," : "";
    const std::uint64_t header_offset = length_size + header_.size() + separator.size();
    if (written_ > 0) {
        fail(path_, written_, tensor(name) + " is declared after the header was written",
             "declare all tensors before the first write");
    }
    if (name == metadata_key) {
        fail(path_, header_offset, tensor(name) + " has the name of the metadata", "give it another name");
    }
    const std::optional<std::uint64_t> size = byte_count(type, shape);
    if (!size || *size > greatest_integer - begin) {
        fail(path_, header_offset, tensor(name) + " makes the size of the file overflow",
             "expected less than 2^63 bytes");
    }
    nlohmann::ordered_json entry;
    entry["dtype"] = std::string(storage::name(type));
    entry["shape"] = shape;
    entry["data_offsets"] = {begin, begin + *size};
    const std::string key = encode(path_, header_offset, name);
    if (!names_.insert(name).second) {
        fail(path_, header_offset, tensor(name) + " is declared twice", "expected distinct names");
    }
    header_ += separator + key + ":" + entry.dump();
    declared_.push_back({std::move(name), type, std::move(shape), begin, begin + *size, header_offset});
}

void SafetensorsWriter::write_f32(std::string_view name, std::span<const float> values) {
    write(name, DataType::f32, std::as_bytes(values));
}

void SafetensorsWriter::write_f64(std::string_view name, std::span<const double> values) {
    write(name, DataType::f64, std::as_bytes(values));
}

void SafetensorsWriter::write_u8(std::string_view name, std::span<const std::uint8_t> values) {
    write(name, DataType::u8, std::as_bytes(values));
}

void SafetensorsWriter::write_u64(std::string_view name, std::span<const std::uint64_t> values) {
    write(name, DataType::u64, std::as_bytes(values));
}

void SafetensorsWriter::finish() {
    require_open();
    if (written_ == 0) {
        write_header();
    }
    if (next_ < declared_.size()) {
        fail(path_, written_, tensor(declared_[next_].name) + " was not written",
             "write all declared tensors before finishing");
    }
    // A failed write may show only now. A name that exists before the data would name a torn file
    // after a crash of the machine.
    std::error_code error = file_->sync();
    if (destination_.in_place() && error == std::errc::invalid_argument)
        error.clear(); // a device or a pipe, which has no disk below it
    const std::error_code closed = file_->close();
    file_.reset();
    if (error || closed) {
        fail(destination_.first, written_, "cannot be written: " + (error ? error : closed).message(),
             "expected enough free space");
    }
    if (!destination_.in_place())
        error = files_.rename(destination_.first, destination_.last);
    if (error) {
        fail(path_, 0, "cannot be replaced by the finished partial file: " + error.message(),
             "expected a file, or nothing, under this name");
    }
    finished_ = true;
}

void SafetensorsWriter::write(std::string_view name, DataType type, std::span<const std::byte> bytes) {
    require_open();
    if (next_ == declared_.size()) {
        fail(path_, written_, tensor(name) + " is written after the last declared tensor",
             "declare it first");
    }
    const TensorEntry& entry = declared_[next_];
    if (entry.name != name) {
        fail(path_, entry.header_offset, tensor(name) + " is written out of order",
             "expected " + tensor(entry.name) + ", in the declared order");
    }
    if (entry.type != type) {
        fail(path_, entry.header_offset,
             tensor(name) + " is written as " + std::string(storage::name(type)),
             "expected " + std::string(storage::name(entry.type)) + " as declared");
    }
    if (entry.end - entry.begin != bytes.size()) {
        fail(path_, entry.header_offset, tensor(name) + " is written with " + bytes_text(bytes.size()),
             "expected " + bytes_text(entry.end - entry.begin) + " as declared");
    }
    if (written_ == 0) {
        write_header();
    }
    if (!bytes.empty()) { // whose address may be null
        write_bytes(bytes);
    }
    ++next_;
}

void SafetensorsWriter::write_header() {
    header_ += '}';
    header_.resize((header_.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header_.size();
    if (length > header_limit) {
        fail(path_, 0, "the header's length is " + bytes_text(length),
             "expected at most " + bytes_text(header_limit) + "; write fewer tensors to one file");
    }
    write_bytes(std::as_bytes(std::span(&length, 1)));
    write_bytes(std::as_bytes(std::span(header_)));
}

void SafetensorsWriter::write_bytes(std::span<const std::byte> bytes) {
    std::error_code error;
    written_ += write_all(*file_, bytes, error);
    if (error) {
        file_.reset(); // it cannot become valid any more
        fail(destination_.first, written_, "cannot be written: " + error.message(),
             "expected enough free space");
    }
}

void SafetensorsWriter::require_open() const {
    if (!file_) {
        fail(path_, written_, "the file is closed, it was finished or a write failed", "start a new one");
    }
}

} // namespace truestep::storage

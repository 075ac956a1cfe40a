#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/storage/files.hpp>

/// A reader and a writer of safetensors files: eight bytes with the header's length, a JSON header, then
/// the data of all tensors without gaps. The reader takes nothing in the file on trust. All failures are
/// truestep::Error, with the text "<path>: byte <offset in the file>: <what is wrong>; <what is expected>".
namespace truestep::storage {

enum class DataType : std::uint8_t { boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

/// The size of an element in bytes.
std::uint64_t element_size(DataType type);
/// The type's name in the header, as "F32".
std::string_view name(DataType type);

struct TensorEntry {
    std::string name;
    DataType type = DataType::f32;
    std::vector<std::uint64_t> shape;
    /// The bytes [begin, end) of the data section.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    /// Where in the file the header names this tensor, for messages about it.
    std::uint64_t header_offset = 0;

    std::uint64_t element_count() const;
};

/// Validates the whole header when opened, in memory of about ten times its size at most; reads data on
/// demand. The file stays open, so that replacing it under its name does not mix two files; the const
/// functions may be called from several threads.
class SafetensorsFile {
  public:
    explicit SafetensorsFile(const std::filesystem::path& path, const FileSystem& files = disk());
    /// Reads a file that is open already; `path` is for messages.
    SafetensorsFile(std::filesystem::path path, std::unique_ptr<const InputFile> file);

    const std::filesystem::path& path() const { return path_; }
    const std::map<std::string, std::string>& metadata() const { return metadata_; }
    /// The tensors in the order of their data.
    const std::vector<TensorEntry>& tensors() const { return tensors_; }
    /// nullptr if there is no such tensor.
    const TensorEntry* find(std::string_view name) const;
    /// Where in the file the data section begins.
    std::uint64_t data_offset() const { return data_offset_; }

    std::vector<float> read_f32(std::string_view name) const;
    std::vector<double> read_f64(std::string_view name) const;
    std::vector<std::uint8_t> read_u8(std::string_view name) const;
    std::vector<std::uint64_t> read_u64(std::string_view name) const;
    /// Reads bytes of a tensor of any type, from `offset` in it. They must lie within the tensor,
    /// which must be of this file.
    void read_raw(const TensorEntry& entry, std::uint64_t offset, std::span<std::byte> bytes) const;

  private:
    void read_bytes(std::uint64_t offset, std::span<std::byte> bytes) const;
    template <typename Element>
    std::vector<Element> read(std::string_view name, DataType type) const;

    std::filesystem::path path_;
    std::unique_ptr<const InputFile> file_;
    std::uint64_t data_offset_ = 0;
    std::map<std::string, std::string> metadata_;
    std::vector<TensorEntry> tensors_;
    std::vector<std::size_t> by_name_; // positions in tensors_, sorted by name
};

/// All tensors are declared first, then their data is streamed in the declared order. The data goes
/// to "<path>.partial", which finish() syncs and renames: under its own name the file is complete
/// or absent, even after a crash. Anything but a regular file is written in place. The caller syncs
/// the folder, so that the name survives too. The same calls make the same bytes.
class SafetensorsWriter {
  public:
    SafetensorsWriter(std::filesystem::path path, const std::map<std::string, std::string>& metadata,
                      FileSystem& files = disk());
    /// Without finish(), removes the partial file, if there is one.
    ~SafetensorsWriter();
    SafetensorsWriter(const SafetensorsWriter&) = delete;
    SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

    void declare(std::string name, DataType type, std::vector<std::uint64_t> shape);
    void write_f32(std::string_view name, std::span<const float> values);
    void write_f64(std::string_view name, std::span<const double> values);
    void write_u8(std::string_view name, std::span<const std::uint8_t> values);
    void write_u64(std::string_view name, std::span<const std::uint64_t> values);
    /// Writes bytes of any type, in the file's representation.
    void write(std::string_view name, DataType type, std::span<const std::byte> bytes);
    void finish();

  private:
    void write_header();
    void write_bytes(std::span<const std::byte> bytes);
    void require_open() const;

    FileSystem& files_;
    std::filesystem::path path_;
    Destination destination_;
    std::string header_;
    std::vector<TensorEntry> declared_;
    std::set<std::string> names_;
    std::unique_ptr<OutputFile> file_;
    std::size_t next_ = 0;      // in declared_, the tensor to be written next
    std::uint64_t written_ = 0; // bytes, 0 until the header is out
    bool finished_ = false;
};

} // namespace truestep::storage

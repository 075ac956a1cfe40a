// Reads any bytes as a safetensors file: the reader refuses them with truestep::Error, or gives
// every tensor.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/storage/safetensors.hpp>

namespace {

using truestep::storage::DataType;
using truestep::storage::SafetensorsFile;
using truestep::storage::TensorEntry;

void require(bool held, const char* promise) {
    if (!held) {
        std::fprintf(stderr, "broken: %s\n", promise);
        std::abort();
    }
}

/// A file in memory with a path, because the reader takes one. All inputs share it.
class MemoryFile {
  public:
    MemoryFile() : descriptor_(memfd_create("safetensors", MFD_CLOEXEC)) {
        require(descriptor_ >= 0, "there is a file in memory");
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    void fill(std::string_view bytes) const {
        require(ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
                                                      static_cast<ssize_t>(bytes.size()),
                "the file in memory takes the input");
    }
    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

std::size_t bytes_read(const SafetensorsFile& file, const TensorEntry& entry) {
    if (entry.type == DataType::f32) {
        return file.read_f32(entry.name).size() * sizeof(float);
    }
    if (entry.type == DataType::f64) {
        return file.read_f64(entry.name).size() * sizeof(double);
    }
    if (entry.type == DataType::u8) {
        return file.read_u8(entry.name).size();
    }
    if (entry.type == DataType::u64) {
        return file.read_u64(entry.name).size() * sizeof(std::uint64_t);
    }
    try {
        static_cast<void>(file.read_f32(entry.name));
    } catch (const truestep::Error&) { // there are no functions for the other types
        return entry.end - entry.begin;
    }
    require(false, "a tensor of another type is not read as float");
    return 0;
}

void read_all(const SafetensorsFile& file, std::size_t file_size) {
    std::uint64_t covered = 0;
    for (const TensorEntry& entry : file.tensors()) {
        require(entry.begin == covered && entry.begin <= entry.end, "tensors follow one another");
        covered = entry.end;
        require(file.find(entry.name) == &entry, "every tensor is found by its name");
        require(entry.element_count() * element_size(entry.type) == entry.end - entry.begin,
                "the data has the size of the shape");
        require(entry.header_offset > 8 && entry.header_offset < file.data_offset(),
                "a tensor is named inside the header");
        require(bytes_read(file, entry) == entry.end - entry.begin, "all of the data is read");
    }
    require(file.data_offset() + covered == file_size, "the tensors fill the file");
}

/// Returns whether the bytes were accepted.
bool open(const MemoryFile& memory, std::string_view bytes) {
    memory.fill(bytes);
    const std::string path = memory.path();
    try {
        const SafetensorsFile file(path);
        try {
            read_all(file, bytes.size());
        } catch (const truestep::Error& error) {
            std::fprintf(stderr, "%s\n", error.what());
            require(false, "a file that is accepted gives all its tensors");
        }
        return true;
    } catch (const truestep::Error& error) {
        const std::string_view message = error.what();
        require(message.starts_with(path + ": byte "), "a message says where");
        require(std::ranges::all_of(message, [](char letter) { return letter >= ' ' && letter <= '~'; }),
                "a message is one line of printable ASCII");
        require(message.size() < 4096, "a message is not as long as the header");
        return false;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const MemoryFile memory;
    std::string bytes(size, '\0');
    std::copy_n(data, size, bytes.begin());
    if (open(memory, bytes)) {
        return 0;
    }
    // Most changes of a header leave its length wrong, and the code behind would not be reached. So
    // try again with the length of a header that ends at the last brace.
    const std::size_t last_brace = bytes.rfind('}');
    std::uint64_t length = 0;
    if (last_brace != std::string::npos && last_brace >= sizeof length) {
        length = last_brace + 1 - sizeof length;
        std::memcpy(bytes.data(), &length, sizeof length);
        open(memory, bytes);
    }
    return 0;
}

// Reads a fat binary: a header, then images, each with its own header. NVIDIA does not document the
// format; these are the fields in objects of nvcc 12 and 13.
#include "fat_binary.hpp"

#include <cstdint>
#include <cstring>

#include <truestep/simulator/fault.hpp>

namespace truestep::simulator {

namespace {

constexpr std::uint32_t magic = 0xba55'ed50;
constexpr std::uint16_t kind_ptx = 1;
constexpr std::uint64_t flags_compressed = 0x2000U | 0x8000U; // LZ4, zstd

/// A header's field at a byte offset.
template <class T>
T field(const char* header, std::size_t at) {
    T value;
    std::memcpy(&value, header + at, sizeof value);
    return value;
}

} // namespace

std::string_view ptx_of(const void* fat_binary) {
    const auto* const begin = static_cast<const char*>(fat_binary);
    if (field<std::uint32_t>(begin, 0) != magic)
        throw Fault("what is registered is not a fat binary");
    const char* image = begin + field<std::uint16_t>(begin, 6);
    const char* const end = image + field<std::uint64_t>(begin, 8);
    std::string_view newest;
    std::uint32_t newest_architecture = 0;
    while (image < end) {
        const auto header = field<std::uint32_t>(image, 4);
        const auto size = field<std::uint64_t>(image, 8);
        const auto architecture = field<std::uint32_t>(image, 28);
        if (field<std::uint16_t>(image, 0) == kind_ptx && architecture >= newest_architecture) {
            if ((field<std::uint64_t>(image, 40) & flags_compressed) != 0)
                throw Fault("compressed PTX; compile it with nvcc --no-compress");
            newest_architecture = architecture;
            const std::string_view padded(image + header, size);
            newest = padded.substr(0, padded.find('\0'));
        }
        image += header + size;
    }
    if (newest.empty())
        throw Fault("no PTX; compile with nvcc --generate-code=arch=compute_90,code=compute_90");
    return newest;
}

} // namespace truestep::simulator

// A fuzz target with a known bug, which `ci/fuzz --self-test` has to find: past "gate" it reads
// beyond the input.
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const volatile std::uint8_t* bytes = data;
    return size >= 4 && std::memcmp(data, "gate", 4) == 0 && bytes[size] == 0 ? -1 : 0;
}

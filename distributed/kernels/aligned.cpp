// Allocates memory aligned to cache lines, and in large pages where that pays.
#include <truestep/distributed/aligned.hpp>

#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace truestep::distributed {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t large_page = std::size_t{2} << 20U;

} // namespace

void* allocate_aligned(std::size_t bytes) {
    const std::size_t alignment = bytes < large_page ? cache_line : large_page;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes == 0 ? cache_line : bytes) != 0)
        throw std::bad_alloc();
#if defined(__linux__)
    // Whole large pages only: a last one would be taken as a whole, however little of it is used.
    // Without large pages everything is correct, but slower.
    if (alignment == large_page)
        static_cast<void>(madvise(memory, bytes / large_page * large_page, MADV_HUGEPAGE));
#endif
    return memory;
}

void free_aligned(void* memory) noexcept {
    std::free(memory); // NOLINT: of posix_memalign
}

} // namespace truestep::distributed

// Counts allocations by replacing operator new and posix_memalign.
#include "counted_memory.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> number{0};
std::atomic<std::size_t> greatest{0};

void count_one(std::size_t size) {
    if (!counting)
        return;
    ++number;
    for (std::size_t before = greatest; size > before && !greatest.compare_exchange_weak(before, size);) {
    }
}

void* counted(std::size_t size) {
    count_one(size);
    if (void* const place = std::malloc(size > 0 ? size : 1))
        return place;
    throw std::bad_alloc();
}

} // namespace

namespace truestep::distributed::scape {

void count_allocations() {
    number = 0;
    greatest = 0;
    counting = true;
}

Allocations counted_allocations() {
    counting = false;
    return {number, greatest};
}

} // namespace truestep::distributed::scape

void* operator new(std::size_t size) {
    return counted(size);
}
void* operator new[](std::size_t size) {
    return counted(size);
}
void operator delete(void* place) noexcept {
    std::free(place);
}
void operator delete[](void* place) noexcept {
    std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
    std::free(place);
}
void operator delete[](void* place, std::size_t) noexcept {
    std::free(place);
}

extern "C" int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
    count_one(size);
    *memory = memalign(alignment, size);
    return *memory == nullptr ? ENOMEM : 0;
}

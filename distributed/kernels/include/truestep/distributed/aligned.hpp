#pragma once

#include <cstddef>
#include <vector>

namespace truestep::distributed {

/// Allocates memory for vector passes: no register crosses a cache line, and large blocks use large
/// pages where the system has them. Throws std::bad_alloc.
[[nodiscard]] void* allocate_aligned(std::size_t bytes);
void free_aligned(void* memory) noexcept;

template <class Value>
struct AlignedAllocator {
    using value_type = Value;

    AlignedAllocator() = default;
    template <class Other>
    AlignedAllocator(const AlignedAllocator<Other>& /*other*/) noexcept {} // NOLINT: as allocators convert

    [[nodiscard]] Value* allocate(std::size_t count) {
        return static_cast<Value*>(allocate_aligned(count * sizeof(Value)));
    }
    void deallocate(Value* memory, std::size_t /*count*/) noexcept { free_aligned(memory); }
    bool operator==(const AlignedAllocator&) const = default;
};

/// The type of an optimizer's vectors; gradients in it are read faster, too.
using AlignedFloats = std::vector<float, AlignedAllocator<float>>;

} // namespace truestep::distributed

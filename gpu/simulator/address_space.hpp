#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include <truestep/simulator/memory.hpp>

namespace truestep::simulator {

/// The addresses of allocations. The host must not look at those of device memory; pinned memory is
/// the host's.
class AddressSpace {
  public:
    AddressSpace();
    AddressSpace(const AddressSpace&) = delete;
    AddressSpace& operator=(const AddressSpace&) = delete;
    ~AddressSpace();

    /// Returns nullptr if there is no room.
    void* allocate(Memory& memory, std::uint64_t bytes, int device = 0);
    bool release(Memory& memory, void* begin);
    void* allocate_pinned(Memory& memory, std::uint64_t bytes);
    bool release_pinned(Memory& memory, void* begin);

    [[nodiscard]] bool on_device(const void* at) const;
    [[nodiscard]] bool pinned(const void* at) const;
    [[nodiscard]] bool pageable(const void* at) const { return !on_device(at) && !pinned(at); }
    /// The bytes that a copy or a fill touches; throws Fault if they exceed an allocation, or are
    /// in flight.
    [[nodiscard]] std::uint8_t* bytes(Memory& memory, const void* at, std::uint64_t count, bool write,
                                      const char* what) const;

  private:
    std::uint64_t device_ = 0; ///< addresses without memory
    std::uint64_t behind_ = 0; ///< the memory for them
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::uint64_t>
        rooms_; ///< of what is allocated: its size with all that is around it
    std::map<std::uint64_t, std::deque<std::uint64_t>> free_; ///< by that size
    std::map<std::uint64_t, std::uint64_t> pinned_;
};

} // namespace truestep::simulator

// Allocates simulated device memory and pinned memory in a reserved range of addresses.
#include "address_space.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/mman.h>

#include <truestep/simulator/fault.hpp>

namespace truestep::simulator {

namespace {

constexpr std::uint64_t room = std::uint64_t{1} << 36U;
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t granule = 256; ///< what CUDA aligns allocations to
constexpr int junk = 0xa5;
/// An address is reused only after this many others of the same size, so that late uses of it are
/// found.
constexpr std::size_t rest = 64;

std::uint64_t number(const void* at) {
    return reinterpret_cast<std::uint64_t>(at);
}

std::uint64_t mapped(int protection) {
    void* const at = mmap(nullptr, room, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        throw Fault("no address space of 64 GiB for a simulated device; is it limited (ulimit -v)?");
    return number(at);
}

} // namespace

AddressSpace::AddressSpace()
    : device_(mapped(PROT_NONE)), behind_(mapped(PROT_READ | PROT_WRITE)), next_(page) {}

AddressSpace::~AddressSpace() {
    munmap(reinterpret_cast<void*>(device_), room);
    munmap(reinterpret_cast<void*>(behind_), room);
}

void* AddressSpace::allocate(Memory& memory, std::uint64_t bytes, int device) {
    if (bytes > room / 4)
        return nullptr;
    // There is always a gap between two allocations.
    const std::uint64_t size = std::bit_ceil((bytes + granule - 1) / granule) * granule + granule;
    std::uint64_t at = 0;
    if (auto& same = free_[size]; same.size() > rest) {
        at = same.front();
        same.pop_front();
    } else {
        if (next_ + size > room)
            return nullptr;
        at = device_ + next_;
        next_ += size;
    }
    rooms_[at] = size;
    memory.add(at, bytes, static_cast<std::int64_t>(behind_ - device_), false, device);
    std::memset(reinterpret_cast<void*>(at - device_ + behind_), junk, bytes);
    return reinterpret_cast<void*>(at);
}

bool AddressSpace::release(Memory& memory, void* begin) {
    const auto at = rooms_.find(number(begin));
    if (at == rooms_.end())
        return false;
    memory.remove(at->first);
    const std::uint64_t first = (at->first - device_ + page - 1) / page * page;
    const std::uint64_t last = (at->first - device_ + at->second) / page * page;
    if (first < last) // whole pages go back to the system
        madvise(reinterpret_cast<void*>(behind_ + first), last - first, MADV_DONTNEED);
    free_[at->second].push_back(at->first);
    rooms_.erase(at);
    return true;
}

void* AddressSpace::allocate_pinned(Memory& memory, std::uint64_t bytes) {
    void* const at = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (at == nullptr)
        return nullptr;
    pinned_[number(at)] = bytes;
    memory.add(number(at), bytes, 0, true); // the host may have written it
    return at;
}

bool AddressSpace::release_pinned(Memory& memory, void* begin) {
    if (pinned_.erase(number(begin)) == 0)
        return false;
    memory.remove(number(begin));
    std::free(begin);
    return true;
}

bool AddressSpace::on_device(const void* at) const {
    return number(at) >= device_ && number(at) - device_ < room;
}

bool AddressSpace::pinned(const void* at) const {
    auto found = pinned_.upper_bound(number(at));
    if (found == pinned_.begin())
        return false;
    --found;
    return number(at) - found->first < found->second;
}

std::uint8_t* AddressSpace::bytes(Memory& memory, const void* at, std::uint64_t count, bool write,
                                  const char* what) const {
    if (pageable(at))
        return const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(at)); // read where it is const
    Allocation* const allocation = memory.find(number(at));
    if (allocation == nullptr || !allocation->holds(number(at), count))
        throw Fault(std::string(what) + " of " + std::to_string(count) +
                    " bytes goes beyond an allocation");
    if (const Flight* const flight = allocation->met(number(at), count, write))
        throw Fault(std::string(what) + " of " + std::to_string(count) + " bytes is" + flight->text());
    if (write && allocation->written.kept())
        allocation->written.write(number(at) - allocation->base, count);
    return allocation->bytes(number(at));
}

} // namespace truestep::simulator

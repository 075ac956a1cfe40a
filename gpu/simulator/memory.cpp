// Tracks simulated allocations: written bytes, copies in flight, and the last access to each byte.
#include <truestep/simulator/memory.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace truestep::simulator {

namespace {

/// The part of a range that lies in its first word of bits.
struct Part {
    std::uint64_t word = 0;
    std::uint64_t mask = 0;
    std::uint64_t bytes = 0;
};

Part part_of(std::uint64_t at, std::uint64_t bytes) {
    constexpr std::uint64_t width = 64;
    const std::uint64_t count = std::min(bytes, width - at % width);
    return {at / width, (~std::uint64_t{0} >> (width - count)) << (at % width), count};
}

} // namespace

void Shadows::make(std::uint64_t size, std::uint32_t bytes) {
    const auto finest = static_cast<std::uint32_t>(std::countr_zero(bytes));
    const std::uint32_t shift = std::min(shift_, finest);
    std::vector<Shadow> finer((size >> shift) + 1);
    for (std::size_t i = 0; i < finer.size() && i >> (shift_ - shift) < all_.size(); ++i)
        finer[i] = all_[i >> (shift_ - shift)];
    all_ = std::move(finer);
    shift_ = shift;
}

void WrittenBytes::write(std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes;) {
        const Part part = part_of(at + done, bytes - done);
        words_[part.word] |= part.mask;
        done += part.bytes;
    }
}

bool WrittenBytes::all(std::uint64_t at, std::uint64_t bytes) const {
    for (std::uint64_t done = 0; done < bytes;) {
        const Part part = part_of(at + done, bytes - done);
        if ((words_[part.word] & part.mask) != part.mask)
            return false;
        done += part.bytes;
    }
    return true;
}

const Flight* Allocation::met(std::uint64_t at, std::uint64_t bytes, bool write) const {
    for (const Flight& flight : in_flight)
        if ((write || flight.written) && at < flight.end && flight.begin < at + bytes)
            return &flight;
    return nullptr;
}

void Memory::add(std::uint64_t base, std::uint64_t size, std::int64_t to_host, bool filled, int device) {
    Allocation& made = all_[base];
    made = {};
    made.base = base;
    made.size = size;
    made.to_host = to_host;
    made.device = device;
    if (!filled)
        made.written = WrittenBytes(size);
    last_ = nullptr;
}

void Memory::remove(std::uint64_t base) {
    all_.erase(base);
    last_ = nullptr;
}

Allocation* Memory::find(std::uint64_t address) {
    if (last_ != nullptr && last_->holds(address, 1))
        return last_;
    auto at = all_.upper_bound(address);
    if (at == all_.begin())
        return nullptr;
    --at;
    if (!at->second.holds(address, 1))
        return nullptr;
    return last_ = &at->second;
}

} // namespace truestep::simulator

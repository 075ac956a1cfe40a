#include <scape/simulator/memory.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace scape::simulator {

namespace {

bool same_interval(const Touch& one, const Touch& two) {
    return one.block == two.block && one.interval == two.interval;
}

/// Whether nothing orders the two, of which one writes.
bool meets(const Touch& before, const Touch& now, bool between_blocks) {
    if (before.launch != now.launch)
        return false;
    if (before.block != now.block)
        return between_blocks;
    return before.interval == now.interval && before.thread != now.thread;
}

/// What a range has in its first word of bits.
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

const Touch* Shadow::touch(const Touch& now, Act act, bool between_blocks) {
    return act == Act::read ? read(now, between_blocks) : write(now, act, between_blocks);
}

const Touch* Shadow::read(const Touch& now, bool between_blocks) {
    with_ = atomic_ ? "an atomic operation" : "a write";
    if (meets(write_, now, between_blocks))
        return &write_;
    const bool same_launch = read_.launch == now.launch;
    if (same_launch && same_interval(read_, now)) {
        if (read_.thread != now.thread)
            read_.thread = Touch::many;
        return nullptr;
    }
    read_by_blocks_ = same_launch && (read_by_blocks_ || read_.block != now.block);
    read_ = now;
    return nullptr;
}

const Touch* Shadow::write(const Touch& now, Act act, bool between_blocks) {
    const bool both_atomic = act == Act::atomic && atomic_;
    with_ = atomic_ ? "an atomic operation" : "a write";
    if (!both_atomic && meets(write_, now, between_blocks))
        return &write_;
    with_ = "a read";
    const bool read_elsewhere = between_blocks && read_by_blocks_ && read_.launch == now.launch;
    if (read_elsewhere || meets(read_, now, between_blocks))
        return &read_;
    write_ = now;
    atomic_ = act == Act::atomic;
    return nullptr;
}

void Shadows::cover(std::uint64_t bytes) {
    if (all_.size() << shift_ < bytes)
        all_.resize((bytes >> shift_) + 1);
}

void Shadows::refine(std::uint32_t shift) {
    std::vector<Shadow> finer(all_.size() << (shift_ - shift));
    for (std::size_t i = 0; i < finer.size(); ++i)
        finer[i] = all_[i >> (shift_ - shift)];
    all_ = std::move(finer);
    shift_ = shift;
}

bool Shadows::touch(std::uint64_t at, std::uint32_t bytes, const Touch& now, Act act, bool between_blocks,
                    Race& race) {
    if (bytes >> shift_ == 0)
        refine(static_cast<std::uint32_t>(std::countr_zero(bytes)));
    for (std::uint64_t k = at >> shift_; k << shift_ < at + bytes; ++k)
        if (const Touch* const other = all_[k].touch(now, act, between_blocks)) {
            race = {all_[k].what(), *other};
            return true;
        }
    return false;
}

void Written::write(std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes;) {
        const Part part = part_of(at + done, bytes - done);
        words_[part.word] |= part.mask;
        done += part.bytes;
    }
}

bool Written::all(std::uint64_t at, std::uint64_t bytes) const {
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
        made.written = Written(size);
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

} // namespace scape::simulator

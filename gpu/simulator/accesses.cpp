// Loads, stores and atomic operations, and the checks at each: addresses, alignment, unwritten
// memory, races.
#include <array>
#include <bit>
#include <string>
#include <type_traits>

#include "instructions.hpp"
#include "warp.hpp"

namespace truestep::simulator {

namespace {

enum class Space : std::uint8_t { global, shared, parameter };

constexpr const char* name_of(Space space) {
    return space == Space::global ? "global" : "shared";
}
constexpr const char* name_of(Act act) {
    return act == Act::read ? "a read" : act == Act::write ? "a write" : "an atomic operation";
}

/// The address that a lane uses.
template <Space S>
std::uint64_t address_of(const Warp& warp, const Instruction& i, int lane) {
    const std::uint64_t at = warp.values(i.a)[lane] + static_cast<std::uint64_t>(i.offset);
    return S == Space::global ? at : at & 0xffff'ffffU;
}

/// Finds the bytes of an instruction's lanes and checks each access. Checks that neighbouring lanes
/// share are done once.
template <Space S, std::uint32_t Bytes, Act A>
class Places {
  public:
    Places(Warp& warp, const Instruction& i) : warp_(warp), i_(i), block_(*warp.block) {
        if constexpr (S == Space::shared) {
            size_ = block_.shared.size();
            bytes_ = block_.shared.data();
            shadows_ = &block_.shared_shadows;
            shadows_->cover(size_, Bytes);
            written_ = &block_.shared_written;
        }
    }

    /// The bytes of one lane.
    std::uint8_t* of(int lane) {
        const std::uint64_t at = within(lane);
        look_at_written(at, lane);
        const Touch now = block_.now | static_cast<Touch>(warp_.first_thread + lane);
        const auto note = [&](Shadow& shadow) {
            if constexpr (A == Act::read)
                return shadow.read(now, between_blocks, *block_.intervals);
            else
                return shadow.write(now, A, between_blocks, *block_.intervals);
        };
        if (const Shadow* const raced = shadows_->each(at, Bytes, note)) [[unlikely]]
            race(*raced, now, lane);
        return bytes_ + at;
    }

    /// The bytes that several lanes read at one address. Returns nullptr if there may be a race, so
    /// that each lane has to be checked.
    const std::uint8_t* of_all(Lanes set) {
        const int lane = std::countr_zero(set);
        const std::uint64_t at = within(lane);
        look_at_written(at, lane);
        const Touch now = block_.now | touch_thread;
        const auto note = [&](Shadow& shadow) {
            return shadow.read(now, between_blocks, *block_.intervals);
        };
        return shadows_->each(at, Bytes, note) == nullptr ? bytes_ + at : nullptr;
    }

  private:
    static constexpr bool between_blocks = S == Space::global;

    /// Where the lane's bytes are within their allocation.
    std::uint64_t within(int lane) {
        const std::uint64_t address = address_of<S>(warp_, i_, lane);
        if (address % Bytes != 0) [[unlikely]]
            fault(warp_, i_, lane,
                  "misaligned address " + std::to_string(address) + " for " + std::to_string(Bytes) +
                      " bytes");
        if constexpr (S == Space::shared) {
            if (address + Bytes > size_) [[unlikely]]
                fault(warp_, i_, lane, "address beyond shared memory");
            return address;
        } else {
            if (address - base_ >= size_ || size_ - (address - base_) < Bytes) [[unlikely]]
                find(address, lane);
            if (flights_ != nullptr) [[unlikely]]
                if (const Flight* const flight = flights_->met(address, Bytes, A != Act::read))
                    fault(warp_, i_, lane,
                          name_of(A) + std::string(A == Act::read ? " of" : " to") + flight->text());
            return address - base_;
        }
    }

    void find(std::uint64_t address, int lane) {
        Allocation* const allocation = block_.memory->find(address);
        if (allocation == nullptr || !allocation->holds(address, Bytes))
            fault(warp_, i_, lane, "illegal address in global memory");
        if (allocation->device != Allocation::any_device && allocation->device != block_.device)
            fault(warp_, i_, lane,
                  "memory of device " + std::to_string(allocation->device) + " in a kernel on device " +
                      std::to_string(block_.device) + ", without access between them");
        base_ = allocation->base;
        size_ = allocation->size;
        bytes_ = allocation->bytes(base_);
        flights_ = allocation->in_flight.empty() ? nullptr : allocation;
        shadows_ = &allocation->shadows;
        shadows_->cover(size_, Bytes);
        written_ = allocation->written.kept() ? &allocation->written : nullptr;
    }

    void look_at_written(std::uint64_t at, int lane) {
        if (written_ == nullptr)
            return;
        if constexpr (A == Act::write) {
            written_->write_few(at, Bytes);
        } else {
            if (!written_->all_few(at, Bytes)) [[unlikely]]
                fault(warp_, i_, lane, std::string(name_of(S)) + " memory read before it is written");
        }
    }

    [[noreturn]] void race(const Shadow& shadow, Touch now, int lane) const {
        const auto [what, other] = shadow.race(now, A, between_blocks, *block_.intervals);
        const Touch thread = other & touch_thread;
        fault(warp_, i_, lane,
              std::string("race in ") + name_of(S) + " memory, " + name_of(A) + " beside " + what +
                  " by block " + std::to_string(block_.intervals->block(other)) +
                  (thread == touch_thread ? ", several threads" : " thread " + std::to_string(thread)));
    }

    Warp& warp_;
    const Instruction& i_;
    Block& block_;
    std::uint64_t base_ = 0;
    std::uint64_t size_ = 0;
    std::uint8_t* bytes_ = nullptr;
    const Allocation* flights_ = nullptr; ///< where any of its bytes are in flight
    Shadows* shadows_ = nullptr;
    WrittenBytes* written_ = nullptr; ///< where it is kept
};

/// Parameters are read only, so they need no checks for races.
template <std::uint32_t Bytes>
class Places<Space::parameter, Bytes, Act::read> {
  public:
    Places(Warp& warp, const Instruction& i) : warp_(warp), i_(i) {}
    [[nodiscard]] const std::uint8_t* of(int lane) const {
        const std::uint64_t at = address_of<Space::parameter>(warp_, i_, lane);
        if (at % Bytes != 0)
            fault(warp_, i_, lane,
                  "misaligned address " + std::to_string(at) + " for " + std::to_string(Bytes) + " bytes");
        if (at + Bytes > warp_.block->parameters->size())
            fault(warp_, i_, lane, "address beyond the parameters");
        return warp_.block->parameters->data() + at;
    }
    [[nodiscard]] const std::uint8_t* of_all(Lanes set) const { return of(std::countr_zero(set)); }

  private:
    const Warp& warp_;
    const Instruction& i_;
};

/// Whether several lanes name one address.
bool one_address(const Warp& warp, const Instruction& i) {
    if ((warp.running & (warp.running - 1)) == 0)
        return false;
    if (i.a < 0)
        return true;
    const std::uint64_t* const at = warp.values(i.a);
    const std::uint64_t first = at[std::countr_zero(warp.running)];
    std::uint64_t other = 0;
    for_each(warp.running, [&](int lane) { other |= at[lane] ^ first; });
    return other == 0;
}

template <Space S, std::uint32_t Bytes>
void read(Warp& warp, const Instruction& i, std::array<const std::uint8_t*, lanes>& from) {
    Places<S, Bytes, Act::read> places(warp, i);
    if (one_address(warp, i)) {
        if (const std::uint8_t* const all = places.of_all(warp.running)) {
            from.fill(all);
            return;
        }
    }
    for_each(warp.running, [&](int lane) { from[static_cast<std::size_t>(lane)] = places.of(lane); });
}

template <Space S, class T, std::size_t Count>
Entry load() {
    return {[](Warp& warp, const Instruction& i) {
                std::array<const std::uint8_t*, lanes> from; // NOLINT(*-member-init): of the lanes that run
                read<S, sizeof(T) * Count>(warp, i, from);
                for (std::size_t n = 0; n < Count; ++n) {
                    std::uint64_t* const to = warp.row(i.elements[n]);
                    for_each(warp.running, [&](int lane) {
                        T value;
                        std::memcpy(&value, from[static_cast<std::size_t>(lane)] + n * sizeof value,
                                    sizeof value);
                        to[lane] = bits_of<T>(value);
                    });
                }
            },
            Form::load};
}

template <Space S, class T, std::size_t Count>
Entry store() {
    return {[](Warp& warp, const Instruction& i) {
                Places<S, sizeof(T) * Count, Act::write> places(warp, i);
                for_each(warp.running, [&](int lane) {
                    T values[Count];
                    for (std::size_t n = 0; n < Count; ++n)
                        values[n] = value_of<T>(warp.values(i.elements[n])[lane]);
                    std::memcpy(places.of(lane), values, sizeof values);
                });
            },
            Form::store};
}

/// The lanes take their turns one after another; the schedule chooses the first.
template <Space S, class T, class F>
Entry atomic(F) {
    return {[](Warp& warp, const Instruction& i) {
                const auto first = static_cast<int>((*warp.block->random)() % lanes);
                Places<S, sizeof(T), Act::atomic> places(warp, i);
                for (int turn = 0; turn < lanes; ++turn) {
                    const int lane = (first + turn) % lanes;
                    if ((warp.running >> lane & 1U) == 0)
                        continue;
                    std::uint8_t* const at = places.of(lane);
                    T before;
                    std::memcpy(&before, at, sizeof before);
                    const T after = F{}(before, value_of<T>(warp.values(i.b)[lane]));
                    std::memcpy(at, &after, sizeof after);
                    warp.row(i.to)[lane] = bits_of<T>(before);
                }
            },
            Form::atomic};
}

template <Space S, class T>
void add_loads(Table& t, const std::string& opcode, const std::string& type) {
    t[opcode + "." + type] = load<S, T, 1>();
    t[opcode + ".v2." + type] = load<S, T, 2>();
    if constexpr (sizeof(T) <= 4)
        t[opcode + ".v4." + type] = load<S, T, 4>();
}

template <Space S, class T>
void add_stores(Table& t, const std::string& opcode, const std::string& type) {
    t[opcode + "." + type] = store<S, T, 1>();
    t[opcode + ".v2." + type] = store<S, T, 2>();
    if constexpr (sizeof(T) <= 4)
        t[opcode + ".v4." + type] = store<S, T, 4>();
}

template <class T>
void add_access(Table& t, const std::string& type) {
    // An address without a space means global memory: the machine maps no other space into the
    // generic one.
    for (const std::string global : {"ld.global", "ld.global.nc", "ld"})
        add_loads<Space::global, T>(t, global, type);
    add_loads<Space::shared, T>(t, "ld.shared", type);
    add_loads<Space::parameter, T>(t, "ld.param", type);
    for (const std::string global : {"st.global", "st"})
        add_stores<Space::global, T>(t, global, type);
    add_stores<Space::shared, T>(t, "st.shared", type);
}

template <Space S>
void add_atomics(Table& t, const std::string& space) {
    const auto add = [&]<class T>(const std::string& name, T, auto operation) {
        t["atom." + space + "." + name] = atomic<S, T>(operation);
    };
    constexpr std::uint32_t u32 = 0;
    constexpr std::uint64_t u64 = 0;
    add("add.u32", u32, [](auto x, auto y) { return x + y; });
    add("add.u64", u64, [](auto x, auto y) { return x + y; });
    add("or.b32", u32, [](auto x, auto y) { return x | y; });
    add("or.b64", u64, [](auto x, auto y) { return x | y; });
    add("and.b32", u32, [](auto x, auto y) { return x & y; });
    add("and.b64", u64, [](auto x, auto y) { return x & y; });
    add("min.s64", std::int64_t{0}, [](auto x, auto y) { return x < y ? x : y; });
    add("max.s64", std::int64_t{0}, [](auto x, auto y) { return x < y ? y : x; });
    add("exch.b32", u32, [](auto, auto y) { return y; });
    add("exch.b64", u64, [](auto, auto y) { return y; });
}

} // namespace

void add_accesses(Table& t) {
    add_access<std::uint8_t>(t, "u8");
    add_access<std::uint8_t>(t, "b8");
    add_access<std::int8_t>(t, "s8");
    add_access<std::uint16_t>(t, "u16");
    add_access<std::uint16_t>(t, "b16");
    add_access<std::int16_t>(t, "s16");
    for (const std::string type : {"u32", "b32", "f32"})
        add_access<std::uint32_t>(t, type);
    add_access<std::int32_t>(t, "s32");
    for (const std::string type : {"u64", "b64", "f64"})
        add_access<std::uint64_t>(t, type);
    add_access<std::int64_t>(t, "s64");
    add_atomics<Space::global>(t, "global");
    add_atomics<Space::shared>(t, "shared");
}

} // namespace truestep::simulator

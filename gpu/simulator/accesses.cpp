// Loads, stores and atomic operations, and what is looked for at each: addresses, alignment, memory that
// has not been written, races.
#include <string>
#include <type_traits>

#include "instructions.hpp"
#include "warp.hpp"

namespace scape::simulator {

namespace {

enum class Space : std::uint8_t { global, shared, parameter };

struct Access {
    std::uint64_t at = 0; ///< in an allocation, or in shared memory
    std::uint32_t bytes = 0;
    Act act = Act::read;
    const char* memory = "";
};

/// What shared and global memory have in common.
void look(Warp& warp, const Instruction& i, int lane, const Access& access, Shadows& shadows,
          Written& written) {
    const bool global = access.memory[0] == 'g';
    if (written.kept()) {
        if (access.act == Act::write)
            written.write(access.at, access.bytes);
        else if (!written.all(access.at, access.bytes))
            fault(warp, i, lane, std::string(access.memory) + " memory read before it is written");
    }
    const Block& block = *warp.block;
    const Touch now{block.launch, block.index, block.interval, warp.first_thread + lane};
    Shadows::Race race;
    if (!shadows.touch(access.at, access.bytes, now, access.act, global, race))
        return;
    const char* const own = access.act == Act::read    ? "a read"
                            : access.act == Act::write ? "a write"
                                                       : "an atomic operation";
    fault(warp, i, lane,
          std::string("race in ") + access.memory + " memory, " + own + " beside " + race.what +
              " by block " + std::to_string(race.other.block) +
              (race.other.thread == Touch::many ? ", several threads"
                                                : " thread " + std::to_string(race.other.thread)));
}

template <Space S>
std::uint8_t* place(Warp& warp, const Instruction& i, int lane, std::uint32_t bytes, Act act) {
    Block& block = *warp.block;
    std::uint64_t at = warp.values(i.a)[lane] + static_cast<std::uint64_t>(i.offset);
    if constexpr (S != Space::global)
        at &= 0xffff'ffffU;
    if (at % bytes != 0)
        fault(warp, i, lane,
              "misaligned address " + std::to_string(at) + " for " + std::to_string(bytes) + " bytes");
    if constexpr (S == Space::parameter) {
        if (at + bytes > block.parameters->size())
            fault(warp, i, lane, "address beyond the parameters");
        return const_cast<std::uint8_t*>(block.parameters->data()) + at; // it is only read
    } else if constexpr (S == Space::shared) {
        if (at + bytes > block.shared.size())
            fault(warp, i, lane, "address beyond shared memory");
        look(warp, i, lane, {at, bytes, act, "shared"}, block.shared_shadows, block.shared_written);
        return block.shared.data() + at;
    } else {
        Allocation* const allocation = block.memory->find(at);
        if (allocation == nullptr || !allocation->holds(at, bytes))
            fault(warp, i, lane, "illegal address in global memory");
        if (allocation->device != Allocation::any_device && allocation->device != block.device)
            fault(warp, i, lane,
                  "memory of device " + std::to_string(allocation->device) + " in a kernel on device " +
                      std::to_string(block.device) + ", without access between them");
        if (const Flight* const flight = allocation->met(at, bytes, act != Act::read))
            fault(warp, i, lane, (act == Act::read ? "a read of" : "a write to") + flight->text());
        allocation->shadows.cover(allocation->size);
        look(warp, i, lane, {at - allocation->base, bytes, act, "global"}, allocation->shadows,
             allocation->written);
        return allocation->bytes(at);
    }
}

template <Space S, class T, std::size_t Count>
Entry load() {
    return {[](Warp& warp, const Instruction& i) {
                for_each(warp.running, [&](int lane) {
                    T values[Count];
                    std::memcpy(values, place<S>(warp, i, lane, sizeof values, Act::read), sizeof values);
                    for (std::size_t n = 0; n < Count; ++n)
                        warp.row(i.elements[n])[lane] = bits_of<T>(values[n]);
                });
            },
            Form::load};
}

template <Space S, class T, std::size_t Count>
Entry store() {
    return {[](Warp& warp, const Instruction& i) {
                for_each(warp.running, [&](int lane) {
                    T values[Count];
                    for (std::size_t n = 0; n < Count; ++n)
                        values[n] = value_of<T>(warp.values(i.elements[n])[lane]);
                    std::memcpy(place<S>(warp, i, lane, sizeof values, Act::write), values, sizeof values);
                });
            },
            Form::store};
}

/// The lanes take their turns one after another; which is the first one is the schedule's.
template <Space S, class T, class F>
Entry atomic(F) {
    return {[](Warp& warp, const Instruction& i) {
                const auto first = static_cast<int>((*warp.block->random)() % lanes);
                for (int turn = 0; turn < lanes; ++turn) {
                    const int lane = (first + turn) % lanes;
                    if ((warp.running >> lane & 1U) == 0)
                        continue;
                    std::uint8_t* const at = place<S>(warp, i, lane, sizeof(T), Act::atomic);
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
    // An address without a space is one of global memory: the machine maps no other into the generic space.
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

} // namespace scape::simulator

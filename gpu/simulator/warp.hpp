#pragma once

// 32 threads of a block, and the block: the data on which instructions work.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include <truestep/simulator/memory.hpp>
#include <truestep/simulator/program.hpp>

namespace truestep::simulator {

struct Block;

struct Warp {
    Block* block = nullptr;
    const Kernel* kernel = nullptr;
    int first_thread = 0;
    Lanes running = 0; ///< those that execute the instruction
    Lanes live = 0;
    Lanes at_barrier = 0;
    Lanes at_vote = 0;
    std::array<int, lanes> next{}; ///< each lane's instruction
    std::vector<std::uint64_t> registers;
    std::vector<Lanes> predicates;

    [[nodiscard]] Lanes ready() const { return live & ~at_barrier & ~at_vote; }
    std::uint64_t* row(int number) { return registers.data() + static_cast<std::size_t>(number) * lanes; }
    [[nodiscard]] const std::uint64_t* values(int number) const {
        if (number >= 0)
            return registers.data() + static_cast<std::size_t>(number) * lanes;
        const int constant = ~number;
        return kernel->constants[static_cast<std::size_t>(constant)].data();
    }
    [[nodiscard]] Lanes predicate(int number) const {
        if (number < 0)
            return number == always_true ? ~Lanes{0} : 0;
        return predicates[static_cast<std::size_t>(number)];
    }
    void set_predicate(int number, Lanes value) {
        Lanes& place = predicates[static_cast<std::size_t>(number)];
        place = (place & ~running) | (value & running);
    }
};

struct Block {
    Memory* memory = nullptr;
    const Kernel* kernel = nullptr;
    const std::vector<std::uint8_t>* parameters = nullptr;
    std::mt19937_64* random = nullptr;
    Intervals* intervals = nullptr;
    std::uint32_t index = 0;
    int device = 0;
    Touch now = 0; ///< between which barriers it is, by thread 0
    std::vector<std::uint8_t> shared;
    Shadows shared_shadows;
    WrittenBytes shared_written;
    std::vector<Warp> warps;
};

/// Throws Fault with the text and the lane's place.
[[noreturn]] void fault(const Warp& warp, const Instruction& instruction, int lane,
                        const std::string& what);

template <class Work>
void for_each(Lanes set, const Work& work) {
    if (set == ~Lanes{0}) {
        for (int lane = 0; lane < lanes; ++lane)
            work(lane);
        return;
    }
    for (; set != 0; set &= set - 1)
        work(std::countr_zero(set));
}

/// A register's low bytes as a value of a type. Not by memcpy, which keeps compilers from
/// vectorizing.
template <class T>
T value_of(std::uint64_t bits) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(bits);
    else
        return static_cast<T>(bits);
}

/// The reverse; a NaN becomes the device's NaN, and a signed number is extended to the whole
/// register.
template <class T>
std::uint64_t bits_of(T value) {
    if constexpr (std::is_same_v<T, float>) {
        constexpr std::uint64_t nan = 0x7fff'ffff;
        return std::isnan(value) ? nan : std::bit_cast<std::uint32_t>(value);
    } else if constexpr (std::is_same_v<T, double>) {
        constexpr std::uint64_t nan = 0x7fff'ffff'ffff'ffff;
        return std::isnan(value) ? nan : std::bit_cast<std::uint64_t>(value);
    } else if constexpr (std::is_signed_v<T>) {
        return static_cast<std::uint64_t>(std::int64_t{value});
    } else {
        return value;
    }
}

} // namespace truestep::simulator

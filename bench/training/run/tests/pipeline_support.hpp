#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/training/draw.hpp>

namespace truestep::training {

constexpr std::uint64_t seed = 6;

/// Between -1 and 1, from these numbers.
inline float value(std::uint64_t what, std::size_t at) {
    return static_cast<float>(static_cast<double>(drawn({what, at}) >> 11U) * 0x1p-52 - 1);
}

inline distributed::mapl::Floats values(std::uint64_t what, std::size_t size) {
    distributed::mapl::Floats made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = value(what, i);
    return made;
}

inline std::vector<std::uint8_t> symbols(std::size_t size, std::size_t below) {
    std::vector<std::uint8_t> made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<std::uint8_t>(drawn({11, i}) % below);
    return made;
}

} // namespace truestep::training

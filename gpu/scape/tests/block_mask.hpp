#pragma once

#include <cstdint>

#include <truestep/distributed/mask.hpp>

#include "algorithms/mask.hpp"
#include "machine.hpp"

namespace truestep::gpu::scape {

/// A mask in the memory where blocks compute.
struct BlockMask {
    BlockMask(Machine& machine, const distributed::Mask& mask) {
        const Index tiles = (mask.size() + tile - 1) / tile;
        const auto count = static_cast<Index>(mask.word_count());
        machine.resize(words, count);
        machine.resize(ranks, count);
        machine.resize(offsets, tiles + 1);
        machine.resize(counts, tiles);
        machine.upload(words.data(), mask.words(), count);
        machine.run<CountWords>((count + CountWords::words - 1) / CountWords::words,
                                {0, count, view(), counts.data()});
        OffsetsOf<Machine>().run(machine, counts.data(), tiles, offsets.data());
    }
    MaskView view() { return {words.data(), ranks.data(), offsets.data()}; }

    HostMachine::Vector<std::uint64_t> words;
    HostMachine::Vector<std::uint16_t> ranks;
    HostMachine::Vector<Index> offsets;
    HostMachine::Vector<std::uint32_t> counts;
};

} // namespace truestep::gpu::scape

// Declares the machine that interprets kernels block by block, with turns drawn from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <truestep/simulator/memory.hpp>
#include <truestep/simulator/program.hpp>

namespace truestep::simulator {

struct Block;

/// Runs kernels: warps in lock step, with lanes apart after a branch that diverges. A seed chooses
/// the turns of blocks, warps and diverged lanes.
class Machine {
  public:
    Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
    ~Machine();

    Memory& memory() { return memory_; }

    /// Returns when all blocks are done. Throws Fault at the first error of the kernel, or access
    /// to another device's memory.
    void launch(const std::shared_ptr<const Kernel>& kernel, std::uint32_t blocks, std::uint32_t threads,
                const std::vector<std::uint8_t>& parameters, std::uint64_t seed, int device = 0);

  private:
    Memory memory_;
    Intervals intervals_;
    /// Blocks are large, so they are reused.
    std::map<std::shared_ptr<const Kernel>, std::vector<std::unique_ptr<Block>>> spare_;
};

} // namespace truestep::simulator

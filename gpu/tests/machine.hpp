#pragma once

#include <cstdint>

#include <truestep/gpu/host_machine.hpp>

namespace truestep::gpu {

/// A machine that does its work at once.
class Machine : public HostMachine {
  public:
    Machine(int threads, std::uint64_t seed) : HostMachine(HostStream(threads, seed), Exchange::host) {}

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        HostMachine::run<Algorithm>(blocks, arguments);
        finish();
    }
};

/// Sizes around words, tiles and groups of tiles.
constexpr Index sizes[] = {0, 1, 2, 3, 4, 5, 63, 64, 65, 127, 4095, 4096, 4097, 8192, 10001, 70'000};

} // namespace truestep::gpu

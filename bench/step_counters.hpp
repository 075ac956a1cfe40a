#pragma once

#include <string>

#include <truestep/distributed/communicator.hpp>
#include <truestep/problem/layout.hpp>

#include "measure.hpp"

// Counters for rows that time a whole step.

namespace truestep::bench {

/// The bytes that a step of so many ranks has to move: each reads g, e and w, and writes e and w.
inline double least_bytes(problem::Index size, int ranks) {
    return 20.0 * static_cast<double>(size) * ranks;
}

/// Reports the bytes that one rank sends to others in a step.
inline void report_wire(benchmark::State& state, const distributed::Bytes& sent, problem::Index size) {
    for (std::size_t kind = 0; kind < sent.size(); ++kind)
        if (sent[kind] > 0)
            state.counters[std::string(distributed::name(static_cast<distributed::Traffic>(kind))) +
                           "_B/param"] = static_cast<double>(sent[kind]) / static_cast<double>(size);
}

/// Reports the memory of one rank, with its gradient, which section 4's formula includes.
inline void report_memory(benchmark::State& state, double bytes, problem::Index size, int ranks) {
    state.counters["memory_B/param"] = bytes / static_cast<double>(size) / ranks;
}

} // namespace truestep::bench

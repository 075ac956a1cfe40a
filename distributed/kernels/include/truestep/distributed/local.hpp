#pragma once

#include <cstdint>
#include <span>

#include <truestep/distributed/element.hpp>
#include <truestep/problem/layout.hpp>

// These are the arguments of the passes for a worker that trains by itself and meets others now and then:
// optimizers without communication, drift, gossip. kernels.hpp has the passes.

namespace truestep::distributed {

/// A neighbour's vector and its weight.
struct NeighbourVector {
    const float* y = nullptr;
    float lambda = 1.0F;
};

struct Gossip {
    std::span<const NeighbourVector> met; ///< ascending by worker
    float a = 0.0F;                       ///< alpha/2
    float gamma = 0.0F;
    bool carries = false;     ///< gamma is not 0
    bool of_gossiped = false; ///< the momentum is made of z, which goes to `before`; else of y
};

namespace host {

using problem::Index;

/// The vectors that an inner step reads, and those that receive its results, which may be the same.
struct InnerStep {
    const float* g = nullptr;
    const float* x = nullptr;
    const float* m = nullptr; ///< not for sgd
    const float* v = nullptr; ///< for adamw
    float* x_to = nullptr;
    float* m_to = nullptr;
    float* v_to = nullptr;
};

} // namespace host

} // namespace truestep::distributed

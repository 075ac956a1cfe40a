#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/scape/backend.hpp>
#include <truestep/problem/problem.hpp>

#include "gpu/device.hpp"

namespace truestep::gpu::bench {

/// The device's backend on a stream, with what is exchanged in the device's memory.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend> make_backend(const problem::Problem& problem,
                                                                        std::span<const float> parameters,
                                                                        int device, const Stream& stream);

/// What a whole step of one rank, alone, is made of.
struct Alone {
    std::unique_ptr<distributed::Communicator> ranks; ///< under the communicator
    std::unique_ptr<distributed::Communicator> communicator;
    std::unique_ptr<distributed::scape::Backend> backend;
};
/// With its launches put together in CUDA graphs, or one by one.
[[nodiscard]] Alone make_alone(const problem::Problem& problem, std::span<const float> parameters,
                               int device, bool graph);

} // namespace truestep::gpu::bench

#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/scape/backend.hpp>
#include <truestep/problem/problem.hpp>

#include "gpu/device.hpp"

namespace truestep::gpu::bench {

/// The device's backend on a stream, with exchanged data in the device's memory.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend> make_backend(const problem::Problem& problem,
                                                                        std::span<const float> parameters,
                                                                        int device, const Stream& stream);

/// All parts of a whole step of a single rank.
struct SingleRank {
    std::unique_ptr<distributed::Communicator> ranks; ///< under the communicator
    std::unique_ptr<distributed::Communicator> communicator;
    std::unique_ptr<distributed::scape::Backend> backend;
};
/// `graph`: launches are put together in CUDA graphs; otherwise one by one.
[[nodiscard]] SingleRank make_alone(const problem::Problem& problem, std::span<const float> parameters,
                                    int device, bool graph);

} // namespace truestep::gpu::bench

// Makes backends of gpu/scape for the benchmarks, in this one place.
#include "gpu/backend.hpp"

#include <truestep/distributed/in_process.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/scape/cuda_backend.hpp>

namespace truestep::gpu::bench {

std::unique_ptr<distributed::scape::Backend> make_backend(const problem::Problem& problem,
                                                          std::span<const float> parameters, int device,
                                                          const Stream& stream) {
    return scape::make_cuda_backend(
        problem, parameters, CudaStream({.device = device, .stream = stream.handle(), .graphs = false}),
        Exchange::device);
}

SingleRank make_alone(const problem::Problem& problem, std::span<const float> parameters, int device,
                      bool graph) {
    const CudaStream stream({.device = device, .stream = nullptr, .graphs = graph});
    SingleRank alone;
    alone.ranks = distributed::InProcessGroup(1).communicator(0);
    alone.communicator = make_cuda_communicator(*alone.ranks, stream);
    alone.backend = scape::make_cuda_backend(problem, parameters, stream, Exchange::device);
    return alone;
}

} // namespace truestep::gpu::bench

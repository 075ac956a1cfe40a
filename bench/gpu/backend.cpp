// The one place that knows how a backend of gpu/ is made.
#include "gpu/backend.hpp"

#include <scape/distributed/in_process.hpp>
#include <scape/gpu/cuda_backend.hpp>

namespace scape::gpu::bench {

std::unique_ptr<distributed::Backend> make_backend(const problem::Problem& problem,
                                                   std::span<const float> parameters, int device,
                                                   const Stream& stream) {
    return make_cuda_backend(problem, parameters, {device, stream.handle(), Exchange::device});
}

Alone make_alone(const problem::Problem& problem, std::span<const float> parameters, int device,
                 bool graph) {
    if (graph)
        return {}; // CudaOptions has no graphs
    return {distributed::InProcessGroup(1).communicator(0),
            make_cuda_backend(problem, parameters, {device, nullptr, Exchange::host})};
}

} // namespace scape::gpu::bench

// Makes SCAPE's backend on a CUDA device.
#include <truestep/gpu/scape/cuda_backend.hpp>

#include <truestep/gpu/cuda_machine.hpp>

#include "backend.hpp"

namespace truestep::gpu::scape {

std::unique_ptr<distributed::scape::Backend> make_cuda_backend(const problem::Problem& problem,
                                                               std::span<const float> parameters,
                                                               const CudaStream& stream,
                                                               Exchange exchange) {
    return std::make_unique<BlockBackend<CudaMachine>>(problem, parameters, CudaMachine(stream, exchange),
                                                       0);
}

} // namespace truestep::gpu::scape

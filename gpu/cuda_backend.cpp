#include <scape/gpu/cuda_backend.hpp>

#include "backend.hpp"
#include "cuda_machine.hpp"

namespace scape::gpu {

std::unique_ptr<distributed::Backend> make_cuda_backend(const problem::Problem& problem,
                                                        std::span<const float> parameters,
                                                        const CudaOptions& options) {
    return std::make_unique<BlockBackend<CudaMachine>>(problem, parameters, CudaMachine(options), 0);
}

} // namespace scape::gpu

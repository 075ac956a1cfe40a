#include <scape/gasloc/devices.hpp>

#include <scape/gpu/cuda_machine.hpp>

#include "backend.hpp"

namespace scape::gasloc {

std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream) {
    return std::make_unique<BlockBackend<gpu::CudaMachine>>(
        gpu::CudaMachine(stream, gpu::Exchange::device));
}

} // namespace scape::gasloc

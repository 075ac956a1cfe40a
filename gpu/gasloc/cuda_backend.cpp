// Makes GASLoC's backend on a CUDA device.
#include <truestep/gpu/gasloc/devices.hpp>

#include <truestep/gpu/cuda_machine.hpp>

#include "backend.hpp"

namespace truestep::gpu::gasloc {

std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream) {
    return std::make_unique<BlockBackend<gpu::CudaMachine>>(
        gpu::CudaMachine(stream, gpu::Exchange::device));
}

} // namespace truestep::gpu::gasloc

// Makes the backend of dense training on a CUDA device.
#include <truestep/gpu/dense/devices.hpp>

#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/mapl/cublas_products.hpp>

#include "backend.hpp"

namespace truestep::gpu::dense {

std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream) {
    return std::make_unique<BlockBackend<gpu::CudaMachine, gpu::mapl::CublasProducts>>(
        gpu::CudaMachine(stream, gpu::Exchange::host), gpu::mapl::CublasProducts(stream));
}

} // namespace truestep::gpu::dense

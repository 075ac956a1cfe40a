// Makes MAPL's backend on a CUDA device, and its peers through the host or over NCCL.
#include <truestep/gpu/mapl/devices.hpp>

#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/peers.hpp>

#include "backend.hpp"
#include "device_traffic.hpp"
#include <truestep/gpu/mapl/cublas_products.hpp>

namespace truestep::gpu::mapl {

std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream) {
    return std::make_unique<BlockBackend<gpu::CudaMachine, CublasProducts>>(
        gpu::CudaMachine(stream, gpu::Exchange::device), CublasProducts(stream));
}

std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks,
                                                    const gpu::CudaStream& stream) {
    return gpu::make_cuda_peers(ranks, stream, standing_on_machine());
}

#if defined(TRUESTEP_WITH_NCCL)
std::unique_ptr<distributed::Peers> make_nccl_links(distributed::Peers& ranks,
                                                    const gpu::CudaStream& stream, int peer,
                                                    const gpu::NcclOptions& options) {
    return gpu::make_nccl_links(ranks, stream, standing_on_machine(), {peer}, options);
}
#endif

} // namespace truestep::gpu::mapl

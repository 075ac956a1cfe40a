#include <scape/gpu/cuda_backend.hpp>

#include "backend.hpp"
#include <scape/gpu/cuda_machine.hpp>
#include <scape/gpu/stream_communicator.hpp>

namespace scape::gpu {

std::unique_ptr<distributed::Backend> make_cuda_backend(const problem::Problem& problem,
                                                        std::span<const float> parameters,
                                                        const CudaStream& stream, Exchange exchange) {
    return std::make_unique<BlockBackend<CudaMachine>>(problem, parameters, CudaMachine(stream, exchange),
                                                       0);
}

std::unique_ptr<distributed::Communicator> make_cuda_communicator(distributed::Communicator& ranks,
                                                                  const CudaStream& stream) {
    return std::make_unique<StreamCommunicator<CudaDeviceStream>>(ranks, CudaDeviceStream(stream));
}

} // namespace scape::gpu

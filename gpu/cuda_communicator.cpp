// Makes the communicator for ranks that are threads of one process and share a CUDA device.
#include <truestep/gpu/communicators.hpp>

#include <truestep/gpu/cuda_device_stream.hpp>
#include <truestep/gpu/stream_communicator.hpp>

namespace truestep::gpu {

std::unique_ptr<distributed::Communicator> make_cuda_communicator(distributed::Communicator& ranks,
                                                                  const CudaStream& stream) {
    return std::make_unique<StreamCommunicator<CudaDeviceStream>>(ranks, CudaDeviceStream(stream));
}

} // namespace truestep::gpu

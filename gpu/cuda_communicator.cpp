#include <scape/gpu/communicators.hpp>

#include <scape/gpu/cuda_device_stream.hpp>
#include <scape/gpu/stream_communicator.hpp>

namespace scape::gpu {

std::unique_ptr<distributed::Communicator> make_cuda_communicator(distributed::Communicator& ranks,
                                                                  const CudaStream& stream) {
    return std::make_unique<StreamCommunicator<CudaDeviceStream>>(ranks, CudaDeviceStream(stream));
}

} // namespace scape::gpu

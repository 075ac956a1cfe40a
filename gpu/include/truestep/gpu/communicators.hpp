#pragma once

#include <memory>

#include <truestep/distributed/communicator.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu {

/// Ranks that share one device, any number of them: threads of this process, which meet through `ranks`.
/// It has to outlive the communicator. In builds without CUDA there is none.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_cuda_communicator(distributed::Communicator& ranks, const CudaStream& stream);

/// Its form for the host: ranks that are threads, each with a stream.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_block_communicator(distributed::Communicator& ranks, const HostStream& stream);

} // namespace truestep::gpu

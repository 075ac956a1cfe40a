#pragma once

#include <memory>

#include <truestep/distributed/communicator.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu {

/// A communicator of any number of ranks that share one device: threads of this process, which meet
/// through `ranks`. `ranks` has to outlive the communicator. Not available in builds without CUDA.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_cuda_communicator(distributed::Communicator& ranks, const CudaStream& stream);

/// The host's form: ranks that are threads, each with a stream.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_block_communicator(distributed::Communicator& ranks, const HostStream& stream);

} // namespace truestep::gpu

#pragma once

#include <memory>
#include <string>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif
#include <truestep/distributed/mapl/backend.hpp>

namespace truestep::gpu::mapl {

using namespace problem::mapl;
using namespace distributed::mapl;
using problem::mapl::Settings; // not that of <truestep/optimizer.hpp>

/// An end's backend on a device, with products by cuBLAS in fp32 (no TF32), and peers for it on the
/// same stream.
///
/// Activations and gradients may be in the device's memory, written by this stream or before the
/// call, or, at the price of a copy, in the host's. Values that are returned in the device's memory
/// are work of this stream. Another stream that reads them has to wait for this one, and to finish
/// before they are let go. The host waits in each forward and backward of an end, for the verdict
/// and for messages, which pass through its memory.
///
/// Products have the same bits again on devices of one kind with one version of cuBLAS, if
/// gradients begin at a multiple of 256 bytes. With `graphs` the ends of one thread have to share
/// the stream. Not available in builds without CUDA or cuBLAS.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream);
/// Why cuBLAS is not available here, in builds that use it: the library is opened at its first
/// call.
[[nodiscard]] std::string products_unavailable();
/// Why products are not available in this build or on this machine, or "". Without a device cuBLAS is not
/// asked: it takes 84 MB, which each process that tries a case would inherit.
[[nodiscard]] inline std::string missing_products() {
#if defined(TRUESTEP_WITH_CUBLAS)
    return gpu::availability().devices == 0 ? "" : products_unavailable();
#else
    return "built without cuBLAS, which multiplies matrices on a device";
#endif
}
/// Messages through pinned memory of the host; `ranks`, threads or processes, carries them and has
/// to outlive this.
[[nodiscard]] std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks,
                                                                  const gpu::CudaStream& stream);

#if defined(TRUESTEP_WITH_NCCL)
/// Messages of one boundary from device to device; `peer` is the other end (gpu::make_nccl_links).
[[nodiscard]] std::unique_ptr<distributed::Peers> make_nccl_links(distributed::Peers& ranks,
                                                                  const gpu::CudaStream& stream, int peer,
                                                                  const gpu::NcclOptions& options = {});
#endif

/// The same algorithms and launches in the host's form, on a stream whose work is done late, with
/// the host's products. It is slow, but shows on any machine what a device would do.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Peers> make_block_peers(distributed::Peers& ranks,
                                                                   const gpu::HostStream& stream);

} // namespace truestep::gpu::mapl

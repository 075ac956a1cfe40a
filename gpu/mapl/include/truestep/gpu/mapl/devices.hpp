#pragma once

#include <memory>
#include <string>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif
#include <truestep/distributed/mapl/backend.hpp>

namespace truestep::gpu::mapl {

using namespace problem::mapl;
using namespace distributed::mapl;

/// An end's backend on a device, with products by cuBLAS in fp32 (no TF32), and peers for it on the same
/// stream. Activations and gradients may stand in the device's memory, written by work of this stream or
/// whole before the call, or, at the price of a copy, in the host's. What is given "there" is work of the
/// stream: whoever reads it on another has to wait for this one, and to be done before it is let go. The
/// host waits in each forward and backward of an end, for the verdict and for messages, which go by way of
/// its memory. Products
/// have the same bits again on devices of one kind with one version of cuBLAS, and gradients that stand
/// where 256 bytes begin. With `graphs` the ends of one thread have to share the stream. In builds without
/// CUDA or cuBLAS there are none.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream);
/// Why it has no products to call here, in builds that have it: cuBLAS is opened when it is first called.
[[nodiscard]] std::string products_unavailable();
/// Messages by way of pinned memory of the host; `ranks`, threads or processes, carries them and has to
/// outlive this.
[[nodiscard]] std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks,
                                                                  const gpu::CudaStream& stream);

#if defined(TRUESTEP_WITH_NCCL)
/// Messages of one boundary from device to device, `peer`'s being the other (gpu::make_nccl_links).
[[nodiscard]] std::unique_ptr<distributed::Peers> make_nccl_links(distributed::Peers& ranks,
                                                                  const gpu::CudaStream& stream, int peer,
                                                                  const gpu::NcclOptions& options = {});
#endif

/// The same algorithms and launches in the host's form, on a stream whose work is done late, with the
/// host's products. It is not fast; it shows on any machine what the device's would do.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Peers> make_block_peers(distributed::Peers& ranks,
                                                                   const gpu::HostStream& stream);

} // namespace truestep::gpu::mapl

#pragma once

#include <memory>

#include <scape/distributed/peers.hpp>
#include <scape/gpu/cuda_stream.hpp>
#include <scape/gpu/host_stream.hpp>
#include <scape/mapl/backend.hpp>

namespace scape::mapl {

/// An end's backend on a device, with products by cuBLAS in fp32 (no TF32), and peers for it on the same
/// stream. Activations and gradients may stand in the device's memory or, at the price of a copy, in the
/// host's. What is given "there" is work of the stream: whoever reads it on another has to wait for this
/// one. The host waits once in each forward and backward of an end, and a few times in a step. Products
/// have the same bits again on devices of one kind with one version of cuBLAS, and gradients that stand
/// where 256 bytes begin. With `graphs` the ends of one thread have to share the stream. In builds without
/// CUDA or cuBLAS there are none.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream);
/// Messages by way of pinned memory of the host; `ranks`, threads or processes, carries them and has to
/// outlive this.
[[nodiscard]] std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks,
                                                                  const gpu::CudaStream& stream);

/// The same algorithms and launches in the host's form, on a stream whose work is done late, with the
/// host's products. It is not fast; it shows on any machine what the device's would do.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Peers> make_block_peers(distributed::Peers& ranks,
                                                                   const gpu::HostStream& stream);

} // namespace scape::mapl

#pragma once

// Known bugs of device code, for the gate's own test. Users never link them.

#include <memory>
#include <span>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/scape/block_backend.hpp>
#include <truestep/problem/known_bug.hpp>

namespace truestep::gpu::scape::planted {

enum class Bug : int {
    none = 0,
    missing_barrier = 1,
    mask_buffer_not_waited_for = 2,
    offsets_of_previous_mask = 3,
    fused_multiply_add = 4,
    subnormals_flushed = 5,
    tail_of_last_block = 6,
    payload_cut_off = 7,
    rounding_dropped = 8,
};

/// All bugs in the order of their numbers, from 1 on.
[[nodiscard]] const std::vector<problem::KnownBug>& bugs();

/// Builds make_block_backend() and make_block_communicator() with a known bug, the same on all
/// ranks.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend>
make_backend(Bug bug, const problem::Problem& problem, std::span<const float> parameters,
             const BlockOptions& options, const HostStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_communicator(Bug bug, distributed::Communicator& ranks, const HostStream& stream);

/// The same on a device. Not available in builds without CUDA.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend>
make_backend(Bug bug, const problem::Problem& problem, std::span<const float> parameters, Exchange exchange,
             const CudaStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_communicator(Bug bug, distributed::Communicator& ranks, const CudaStream& stream);

} // namespace truestep::gpu::scape::planted

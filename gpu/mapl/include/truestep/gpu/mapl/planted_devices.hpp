#pragma once

// Mistakes of the kind that is made in code for devices, made for real: for the gate's own test, never for
// users to link.

#include <memory>
#include <vector>

#include <truestep/gpu/mapl/devices.hpp>
#include <truestep/problem/mistake.hpp>

namespace truestep::gpu::mapl::device_mistakes {

enum class Mistake : int {
    none = 0,
    barrier_missing = 1,
    last_quad_left_out = 2,
    sent_before_written = 3,
    verdict_not_waited_for = 4,
    rows_added_at_once = 5,
};

/// In the order of their numbers, from 1 on.
[[nodiscard]] const std::vector<problem::Mistake>& descriptions();

/// What an end computes and talks with.
struct OnStream {
    std::unique_ptr<distributed::Peers> peers;
    std::unique_ptr<Backend> backend;
};
/// make_block_peers() and make_block_backend() with a mistake. All ranks have the same.
[[nodiscard]] OnStream on_stream(Mistake mistake, distributed::Peers& ranks, const gpu::HostStream& stream);
/// The same on a device. In builds without CUDA or cuBLAS there is none.
[[nodiscard]] OnStream on_stream(Mistake mistake, distributed::Peers& ranks, const gpu::CudaStream& stream);

} // namespace truestep::gpu::mapl::device_mistakes

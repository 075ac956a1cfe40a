#pragma once

// Known bugs of device code, for the gate's own test. Users never link them.

#include <memory>
#include <vector>

#include <truestep/gpu/mapl/devices.hpp>
#include <truestep/problem/known_bug.hpp>

namespace truestep::gpu::mapl::device_known_bugs {

enum class KnownBug : int {
    none = 0,
    barrier_missing = 1,
    last_quad_left_out = 2,
    sent_before_written = 3,
    verdict_not_waited_for = 4,
    rows_added_at_once = 5,
};

/// All bugs in the order of their numbers, from 1 on.
[[nodiscard]] const std::vector<problem::KnownBug>& descriptions();

/// An end's backend and peers.
struct OnStream {
    std::unique_ptr<distributed::Peers> peers;
    std::unique_ptr<Backend> backend;
};
/// Builds make_block_peers() and make_block_backend() with a known bug, the same on all ranks.
[[nodiscard]] OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks,
                                 const gpu::HostStream& stream);
/// The same on a device. Not available in builds without CUDA or cuBLAS.
[[nodiscard]] OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks,
                                 const gpu::CudaStream& stream);

} // namespace truestep::gpu::mapl::device_known_bugs

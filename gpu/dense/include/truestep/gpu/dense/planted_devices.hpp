// Known bugs of device code, for the gate's own test. Users never link them.
#pragma once

#include <memory>
#include <vector>

#include <truestep/gpu/dense/devices.hpp>
#include <truestep/problem/known_bug.hpp>

namespace truestep::gpu::dense::device_known_bugs {

enum class KnownBug : int {
    none = 0,
    barrier_missing = 1,
    last_quad_left_out = 2,
    exchanged_before_written = 3,
    verdict_not_waited_for = 4,
    fused_multiply_add = 5,
};

/// All bugs in the order of their numbers, from 1 on.
[[nodiscard]] const std::vector<problem::KnownBug>& descriptions();

/// A backend with a known bug, the same on all ranks.
[[nodiscard]] std::unique_ptr<Backend> backend_on(KnownBug known_bug, const gpu::HostStream& stream);
/// The same on a device. Not available in builds without CUDA or cuBLAS.
[[nodiscard]] std::unique_ptr<Backend> backend_on(KnownBug known_bug, const gpu::CudaStream& stream);

} // namespace truestep::gpu::dense::device_known_bugs

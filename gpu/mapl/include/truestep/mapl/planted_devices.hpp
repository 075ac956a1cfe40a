#pragma once

// Mistakes of the kind that is made in code for devices, made for real: for the gate's own test, never for
// users to link.

#include <memory>
#include <string>
#include <vector>

#include <truestep/mapl/devices.hpp>

namespace truestep::mapl::device_mistakes {

enum class Mistake : int {
    barrier_missing = 1,
    last_values_left_out = 2,
    sent_before_written = 3,
    verdict_not_waited_for = 4,
    rows_added_at_once = 5,
};

struct Description {
    std::string name;
    std::string shows; ///< what a user would see, and when it can be seen at all
};

/// In the order of their numbers, from 1 on.
[[nodiscard]] const std::vector<Description>& descriptions();

/// make_block_backend() and make_block_peers() with a mistake. All ranks have the same.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(Mistake mistake, const gpu::HostStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_block_peers(Mistake mistake, distributed::Peers& ranks, const gpu::HostStream& stream);

/// The same on a device. In builds without CUDA or cuBLAS there are none.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(Mistake mistake, const gpu::CudaStream& stream);
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_cuda_peers(Mistake mistake, distributed::Peers& ranks, const gpu::CudaStream& stream);

} // namespace truestep::mapl::device_mistakes

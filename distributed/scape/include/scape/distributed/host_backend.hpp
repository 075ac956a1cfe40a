#pragma once

#include <memory>
#include <span>

#include <scape/distributed/backend.hpp>

namespace scape::distributed {

/// The backend in the host's memory. `threads` share each pass; their number changes no bit.
[[nodiscard]] std::unique_ptr<Backend>
make_host_backend(const problem::Problem& problem, std::span<const float> parameters, int threads = 1);

} // namespace scape::distributed

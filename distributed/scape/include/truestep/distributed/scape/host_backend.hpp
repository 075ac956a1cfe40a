#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/scape/backend.hpp>

namespace truestep::distributed::scape {

/// The backend in the host's memory. `threads` share each pass; their number changes no bit.
[[nodiscard]] std::unique_ptr<Backend>
make_host_backend(const problem::Problem& problem, std::span<const float> parameters, int threads = 1);

} // namespace truestep::distributed::scape

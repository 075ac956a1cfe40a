#pragma once

#include <memory>

#include <truestep/distributed/gasloc/backend.hpp>

namespace truestep::distributed::gasloc {

/// A backend in the memory of this machine, on `threads` threads.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(int threads = 1);

} // namespace truestep::distributed::gasloc

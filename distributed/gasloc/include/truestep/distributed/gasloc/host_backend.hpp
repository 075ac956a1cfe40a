#pragma once

#include <memory>

#include <truestep/distributed/gasloc/backend.hpp>

namespace truestep::distributed::gasloc {

/// In the memory of this machine, on so many threads.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(int threads = 1);

} // namespace truestep::distributed::gasloc

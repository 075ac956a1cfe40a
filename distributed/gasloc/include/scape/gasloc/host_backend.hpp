#pragma once

#include <memory>

#include <scape/gasloc/backend.hpp>

namespace scape::gasloc {

/// In the memory of this machine, on so many threads.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(int threads = 1);

} // namespace scape::gasloc

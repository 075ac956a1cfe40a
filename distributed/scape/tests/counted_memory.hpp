#pragma once

#include <cstddef>

// Counts a program's allocations: of C++ (operator new) and of aligned vectors (posix_memalign). A
// program that is linked with this has them replaced.

namespace truestep::distributed::scape {

struct Allocations {
    std::size_t count = 0;
    std::size_t largest = 0; ///< bytes
};

/// Starts counting, over all threads.
void count_allocations();
/// Stops counting and returns the result.
[[nodiscard]] Allocations counted_allocations();

} // namespace truestep::distributed::scape

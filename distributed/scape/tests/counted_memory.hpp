#pragma once

#include <cstddef>

// What a program asks the system's memory for: that of C++ (operator new) and that of aligned vectors
// (posix_memalign). A program that is linked with this has them replaced.

namespace truestep::distributed::scape {

struct Allocations {
    std::size_t count = 0;
    std::size_t largest = 0; ///< bytes
};

/// By all threads, from here on.
void count_allocations();
/// Since then; nothing is counted any more.
[[nodiscard]] Allocations counted_allocations();

} // namespace truestep::distributed::scape

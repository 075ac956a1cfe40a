// Starts and writes the timeline of a C caller's process.
#include <truestep/problem/timeline.hpp>

#include "outcome.hpp"

namespace truestep::abi {

extern "C" {

truestep_status truestep_timeline_start(const char* file) {
    return guarded([&] {
        need(file, "file");
        problem::Timeline::start(file);
    });
}

void truestep_timeline_write(void) {
    problem::Timeline::write();
}

} // extern "C"

} // namespace truestep::abi

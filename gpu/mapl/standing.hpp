#pragma once

#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::gpu::mapl {

/// What stands where an end's backend computes: all but the comparison of settings.
inline std::vector<distributed::Traffic> standing_on_machine() {
    using distributed::Traffic;
    return {Traffic::payload, Traffic::gradient, Traffic::parameters};
}

} // namespace truestep::gpu::mapl

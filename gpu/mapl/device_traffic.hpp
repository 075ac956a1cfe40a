#pragma once

#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::gpu::mapl {

/// The traffic in the memory of an end's backend: everything except the comparison of settings.
inline std::vector<distributed::Traffic> standing_on_machine() {
    using distributed::Traffic;
    return {Traffic::payload, Traffic::gradient, Traffic::parameters};
}

} // namespace truestep::gpu::mapl

#pragma once

#include <vector>

#include <scape/distributed/communicator.hpp>

namespace scape::mapl {

/// What stands where an end's backend computes: all but the comparison of settings.
inline std::vector<distributed::Traffic> standing_on_machine() {
    using distributed::Traffic;
    return {Traffic::payload, Traffic::gradient, Traffic::parameters};
}

} // namespace scape::mapl

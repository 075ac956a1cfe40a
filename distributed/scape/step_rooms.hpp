#pragma once

#include <cstddef>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>

#include "agreement.hpp"
#include "mask_plan.hpp"

namespace truestep::distributed::scape {

/// Lists that each step reuses, so that it allocates none.
struct Scape::Rooms {
    AgreementRoom agreement;
    MaskPlan coming;                   ///< for the mask in flight, or for the next one
    std::vector<std::size_t> by_owner; ///< bytes of M
    std::vector<std::size_t> sent_to;  ///< and of the payload
};

} // namespace truestep::distributed::scape

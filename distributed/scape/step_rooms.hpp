#pragma once

#include <cstddef>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>

#include "agreement.hpp"
#include "mask_plan.hpp"

namespace truestep::distributed::scape {

/// Lists of a step that the next one finds again, so that it asks the system for none.
struct Scape::Rooms {
    AgreementRoom agreement;
    MaskPlan coming;                   ///< of the mask in flight, or of the one that is made next
    std::vector<std::size_t> by_owner; ///< bytes of M
    std::vector<std::size_t> sent_to;  ///< and of the payload
};

} // namespace truestep::distributed::scape

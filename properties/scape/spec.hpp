// The settings of a case.
#pragma once

#include <truestep/gate/case_spec.hpp>
#include <truestep/properties/scape/kinds.hpp>

namespace truestep::properties::scape {

[[nodiscard]] const gate::CaseSpec<Case>& spec();

} // namespace truestep::properties::scape

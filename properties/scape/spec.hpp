#pragma once

#include <truestep/gate/case_spec.hpp>
#include <truestep/properties/case.hpp>

namespace truestep::properties {

[[nodiscard]] const gate::CaseSpec<Case>& spec();

} // namespace truestep::properties

#pragma once

#include <scape/mapl/passes.hpp>
#include <scape/mapl/settings.hpp>

namespace scape::mapl {

/// One step of SPEL in place (section 24). False, and nothing changed, if anything it would make is not
/// finite.
bool spel_step(const Settings& settings, std::span<const float> gradient, double rate, Floats& a,
               Floats& m);

} // namespace scape::mapl

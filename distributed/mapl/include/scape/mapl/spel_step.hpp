#pragma once

#include <scape/mapl/passes.hpp>
#include <scape/mapl/settings.hpp>

namespace scape::mapl {

/// One step of SPEL in place (section 24). False, and nothing changed, if anything it would make is not
/// finite.
bool spel_step(const Settings& settings, std::span<const float> gradient, double rate, Floats& a,
               Floats& m);

/// Its parts, of D x r values: polar(x), and the way back onto the manifold from near it.
void polar_in_place(const Settings& settings, Floats& x);
void retract_in_place(const Settings& settings, Floats& x);

} // namespace scape::mapl

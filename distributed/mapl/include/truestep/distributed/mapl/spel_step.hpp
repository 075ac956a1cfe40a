// The optimized step of SPEL (section 24), on the host.
#pragma once

#include <array>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// One step of SPEL in place (section 24). False, without a change, if any result would not be
/// finite.
bool spel_step(const Settings& settings, std::span<const float> gradient, double rate, Floats& a,
               Floats& m);

/// The coefficients c0, c1, c2 of an odd polynomial of degree 5: the endless one, and those before
/// it, whose margin of 1.01 is divided out where they are used.
using OddPolynomial = std::array<double, 3>;
inline constexpr OddPolynomial endless_polynomial{1.875, -1.25, 0.375};
inline constexpr std::array<OddPolynomial, 7> polar_polynomials{
    {{8.28721201814563, -23.595886519098837, 17.300387312530933},
     {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
     {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
     {3.3184196573706015, -2.488488024314874, 0.51004894012372},
     {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
     {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
     {1.8750014808534479, -1.2500016453999487, 0.3750001645474248}}};
/// The coefficients for multiplying, with the margin applied to X.
[[nodiscard]] inline std::array<float, 3> scaled_polynomial(const OddPolynomial& c, double margin) {
    const double cube = margin * margin * margin;
    return {static_cast<float>(c[0] / margin), static_cast<float>(c[1] / cube),
            static_cast<float>(c[2] / (cube * margin * margin))};
}

/// The parts of a step, on D x r values: polar(x), and the retraction from near the manifold.
void polar_in_place(const Settings& settings, Floats& x);
void retract_in_place(const Settings& settings, Floats& x);

} // namespace truestep::distributed::mapl

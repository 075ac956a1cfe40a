#pragma once

// How often a statistic is greater than so much where there is nothing to find.

namespace truestep::training {

/// Of Student's t.
[[nodiscard]] double student_tail(double t, double freedom);
/// Of a quotient of two variances.
[[nodiscard]] double fisher_tail(double quotient, double freedom_above, double freedom_below);
/// The t that is passed as rarely as a normal variable passes 3.09.
[[nodiscard]] double student_limit(double freedom);
/// That chance: 1 in 1000, on one side.
[[nodiscard]] double chance_of_limit();

} // namespace truestep::training

#pragma once

// Probabilities that a statistic exceeds a value if there is no effect.

namespace truestep::training {

/// The tail of Student's t.
[[nodiscard]] double student_tail(double t, double freedom);
/// The tail of a quotient of two variances.
[[nodiscard]] double fisher_tail(double quotient, double freedom_above, double freedom_below);
/// The t that is exceeded as rarely as 3.09 by a normal variable.
[[nodiscard]] double student_limit(double freedom);
/// The probability of that: 1 in 1000, on one side.
[[nodiscard]] double chance_of_limit();

} // namespace truestep::training

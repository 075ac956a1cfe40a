// Computes tail probabilities of Student's t and Fisher's F by the incomplete beta function.
#include "tails.hpp"

#include <cmath>
#include <initializer_list>
#include <numbers>

namespace truestep::training {

namespace {

/// I_x(a, b) for x below (a + 1) / (a + b + 2), by its continued fraction (DLMF 8.17.22), evaluated
/// from the front (Lentz).
double beta_below(double a, double b, double x) {
    constexpr int most_terms = 10'000;
    constexpr double tiny = 1e-300;
    const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
    double fraction = 1.0;
    double above = 1.0;
    double under = 1.0 / away_from_zero(1.0 - ((a + b) * x / (a + 1.0)));
    fraction = under;
    for (int m = 1; m < most_terms; ++m) {
        const double even = m * (b - m) * x / ((a + (2 * m) - 1) * (a + (2 * m)));
        const double odd = -(a + m) * (a + b + m) * x / ((a + (2 * m)) * (a + (2 * m) + 1));
        double factor = 1.0;
        for (const double term : {even, odd}) {
            under = 1.0 / away_from_zero(1.0 + (term * under));
            above = away_from_zero(1.0 + (term / above));
            factor = above * under;
            fraction *= factor;
        }
        if (std::abs(factor - 1.0) < 1e-15)
            break;
    }
    const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + (a * std::log(x)) +
                                  (b * std::log1p(-x)));
    return front * fraction / a;
}

/// The regularized incomplete beta function.
double beta(double a, double b, double x) {
    if (!(x > 0.0))
        return 0.0;
    if (x >= 1.0)
        return 1.0;
    return x < (a + 1.0) / (a + b + 2.0) ? beta_below(a, b, x) : 1.0 - beta_below(b, a, 1.0 - x);
}

} // namespace

double student_tail(double t, double freedom) {
    const double half = beta(freedom / 2.0, 0.5, freedom / (freedom + (t * t))) / 2.0;
    return t >= 0.0 ? half : 1.0 - half;
}

double fisher_tail(double quotient, double freedom_above, double freedom_below) {
    return beta(freedom_below / 2.0, freedom_above / 2.0,
                freedom_below / (freedom_below + (freedom_above * quotient)));
}

double chance_of_limit() {
    return std::erfc(3.09 / std::numbers::sqrt2) / 2.0;
}

double student_limit(double freedom) {
    double low = 3.0;
    double high = 1000.0; // of one degree of freedom it is 318
    constexpr int halvings = 60;
    for (int i = 0; i < halvings; ++i) {
        const double middle = (low + high) / 2.0;
        (student_tail(middle, freedom) > chance_of_limit() ? low : high) = middle;
    }
    return (low + high) / 2.0;
}

} // namespace truestep::training

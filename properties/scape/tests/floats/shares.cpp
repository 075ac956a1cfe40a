// Counts errors as shares of their limits, and prints the greatest share and the median.
#include "shares.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>

namespace truestep::properties::scape::floats {

void Shares::add(double expected, double limit, float actual) {
    if (std::isinf(limit)) {
        ++unbounded;
        return;
    }
    constexpr double greatest = 0x1p127;
    if (!(std::abs(expected) + limit < greatest)) {
        ++too_large;
        return;
    }
    ++compared;
    const double error = std::abs(expected - static_cast<double>(actual));
    if (error == 0.0) {
        ++exact;
        return;
    }
    const double share = error / limit;
    worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(worst, share);
    if (!(error <= limit)) {
        if (outside++ == 0) {
            char text[160];
            static_cast<void>(std::snprintf(text, sizeof text, "%.9g in place of %.17g, limit %.3g",
                                            static_cast<double>(actual), expected, limit));
            first = text;
        }
        return;
    }
    const auto octave = static_cast<int>(std::log2(limit / error) * per_octave);
    ++counts_[static_cast<std::size_t>(std::clamp(octave, 0, per_octave * octaves - 1))];
}

void Shares::add(const Shares& other) {
    compared += other.compared;
    unbounded += other.unbounded;
    too_large += other.too_large;
    exact += other.exact;
    outside += other.outside;
    worst = std::max(worst, other.worst);
    if (first.empty())
        first = other.first;
    for (std::size_t i = 0; i < counts_.size(); ++i)
        counts_[i] += other.counts_[i];
}

std::string Shares::median() const {
    const std::uint64_t inexact = compared - exact;
    std::uint64_t seen = outside; // whose quotient is the smallest
    if (2 * seen >= inexact)
        return "below 1";
    std::size_t bin = 0;
    for (const std::uint64_t count : counts_) {
        seen += count;
        if (2 * seen >= inexact)
            break;
        ++bin;
    }
    char text[32];
    static_cast<void>(
        std::snprintf(text, sizeof text, "%.1f", std::exp2((static_cast<double>(bin) + 0.5) / per_octave)));
    return text;
}

std::string Shares::head() {
    return "what                                 compared      exact  unbounded  too large    outside  "
           "greatest share  "
           "median of limit/error\n";
}

std::string Shares::row(const std::string& name) const {
    char text[200];
    static_cast<void>(std::snprintf(
        text, sizeof text, "%-34s %10llu %10llu %10llu %10llu %10llu %15.3g %22s\n", name.c_str(),
        static_cast<unsigned long long>(compared), static_cast<unsigned long long>(exact),
        static_cast<unsigned long long>(unbounded), static_cast<unsigned long long>(too_large),
        static_cast<unsigned long long>(outside), worst, median().c_str()));
    return text + (first.empty() ? "" : "    " + first + "\n");
}

} // namespace truestep::properties::scape::floats

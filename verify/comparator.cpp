// Compares vectors and masks value by value at a level, and words the differences.
#include <truestep/verify/comparator.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <limits>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// The position of a float in the order of all floats, as a whole number: -0 right below +0.
std::int64_t place(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto magnitude = static_cast<std::int64_t>(bits & 0x7fff'ffffU);
    return (bits >> 31U) != 0 ? -magnitude - 1 : magnitude;
}

/// Gathers pairs into a comparison.
class Gatherer {
  public:
    Gatherer(std::size_t expected_size, std::size_t actual_size) {
        result_.expected_size = static_cast<Index>(expected_size);
        result_.actual_size = static_cast<Index>(actual_size);
    }

    void add(Pair pair, double distance) {
        if (std::isinf(pair.limit)) {
            ++result_.unbounded;
            return;
        }
        pair.ok = distance <= pair.limit;
        ++result_.compared;
        // (An expected NaN or infinity counts as non-zero.)
        if (pair.expected != 0.0F)
            ++result_.nonzero;
        result_.greatest_ulps = std::max(result_.greatest_ulps, pair.ulps);
        if (pair.ulps > 0.0 && (!result_.greatest || pair.difference > result_.greatest->difference))
            result_.greatest = pair;
        if (pair.ok)
            add_good(pair, distance);
        else
            add_bad(pair);
    }

    Comparison finish() {
        result_.last.assign(last_.begin(), last_.end());
        return std::move(result_);
    }

  private:
    void add_good(const Pair& pair, double distance) {
        if (distance > 0.0)
            result_.share_of_limit = std::max(result_.share_of_limit, distance / pair.limit);
        if (result_.mismatched > 0)
            return;
        if (result_.before.size() == Comparison::shown_before)
            result_.before.erase(result_.before.begin());
        result_.before.push_back(pair);
    }

    void add_bad(const Pair& pair) {
        ++result_.mismatched;
        result_.wrong.resize(static_cast<std::size_t>(pair.index) + 1);
        result_.wrong.back() = true;
        if (result_.first.size() < Comparison::shown_each_end) {
            result_.first.push_back(pair);
            return;
        }
        if (last_.size() == Comparison::shown_each_end)
            last_.pop_front();
        last_.push_back(pair);
    }

    Comparison result_;
    std::deque<Pair> last_;
};

std::uint8_t byte_at(std::span<const std::uint8_t> bytes, std::size_t index) {
    return index < bytes.size() ? bytes[index] : std::uint8_t{0};
}

bool bit_at(std::span<const std::uint8_t> bytes, std::size_t index) {
    return ((byte_at(bytes, index / 8) >> (index % 8)) & 1U) != 0;
}

std::string describe(const Pair& pair, const problem::Layout& layout, const std::string& mark = "  <--") {
    const std::string where = pair.index < layout.size()
                                  ? layout.describe(pair.index)
                                  : "beyond the last parameter (bit " + std::to_string(pair.index) + ")";
    std::string line = where + ": expected " + with_bits(pair.expected) + ", got " + with_bits(pair.actual);
    if (pair.ulps > 0.0)
        line += ", " + (std::isinf(pair.ulps) ? "not comparable" : shortest(pair.ulps) + " ULP apart");
    return line + (pair.ok ? "" : mark);
}

} // namespace

double ulp_distance(float a, float b) {
    if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b))
        return 0.0;
    if (!std::isfinite(a) || !std::isfinite(b))
        return infinite;
    return static_cast<double>(std::abs(place(a) - place(b)));
}

double difference(double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b)))
        return 0.0;
    const double result = std::abs(a - b);
    return std::isnan(result) ? infinite : result;
}

Comparison compare(std::span<const float> expected, std::span<const float> actual, const Level& level) {
    if (level.kind == LevelKind::rel || level.kind == LevelKind::bf16 || level.kind == LevelKind::stat)
        throw Error("comparator: level " + name(level) + " is not available without bounds; pass them");
    if (level.kind == LevelKind::ulp && !(level.limit >= 0.0 && std::isfinite(level.limit)))
        throw Error("comparator: level " + name(level) +
                    " bounds nothing; its limit must be at least 0, and finite");
    Gatherer gatherer(expected.size(), actual.size());
    const double limit = level.kind == LevelKind::ulp ? level.limit : 0.0;
    for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
        const double ulps = ulp_distance(expected[i], actual[i]);
        gatherer.add({static_cast<Index>(i), expected[i], actual[i], ulps,
                      difference(static_cast<double>(expected[i]), static_cast<double>(actual[i])), limit,
                      false},
                     ulps);
    }
    return gatherer.finish();
}

Comparison compare(std::span<const double> expected, std::span<const double> limits,
                   std::span<const float> actual) {
    if (expected.size() != limits.size())
        throw Error("comparator: " + std::to_string(expected.size()) + " values with " +
                    std::to_string(limits.size()) + " limits; give one limit for each value");
    Gatherer gatherer(expected.size(), actual.size());
    for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
        const auto rounded = static_cast<float>(expected[i]);
        const double distance = difference(expected[i], static_cast<double>(actual[i]));
        // A non-finite limit or value proves nothing: it fails.
        const double limit = std::isfinite(expected[i]) && std::isfinite(actual[i]) ? limits[i] : -1.0;
        gatherer.add({static_cast<Index>(i), rounded, actual[i], ulp_distance(rounded, actual[i]), distance,
                      limit, false},
                     distance);
    }
    return gatherer.finish();
}

Comparison compare_masks(std::span<const std::uint8_t> expected, std::span<const std::uint8_t> actual,
                         Index size, std::span<const std::uint8_t> allowed) {
    Gatherer gatherer(expected.size(), actual.size());
    const std::size_t bits = 8 * std::min(expected.size(), actual.size());
    for (std::size_t i = 0; i < bits; ++i) {
        const bool beyond = i >= static_cast<std::size_t>(size);
        const bool a = bit_at(expected, i);
        const bool b = bit_at(actual, i);
        if (beyond && a == b)
            continue;
        const double apart = a == b ? 0.0 : 1.0;
        gatherer.add({static_cast<Index>(i), a ? 1.0F : 0.0F, b ? 1.0F : 0.0F, apart, apart, 0.0, false},
                     bit_at(allowed, i) ? 0.0 : apart);
    }
    return gatherer.finish();
}

std::string summary(const Comparison& comparison) {
    if (comparison.expected_size != comparison.actual_size)
        return "sizes differ: expected " + std::to_string(comparison.expected_size) + ", got " +
               std::to_string(comparison.actual_size);
    char share[32];
    std::snprintf(share, sizeof share, "%.3g",
                  100.0 * static_cast<double>(comparison.mismatched) /
                      static_cast<double>(std::max<Index>(1, comparison.compared)));
    return std::to_string(comparison.mismatched) + " of " + std::to_string(comparison.compared) +
           " values differ (" + share + " %)";
}

std::string details(const Comparison& comparison, const problem::Layout& layout,
                    const std::string& indent) {
    std::string text;
    const auto add = [&](const std::string& line) { text += indent + line + "\n"; };
    for (const auto* part : {&comparison.before, &comparison.first})
        for (const Pair& pair : *part)
            add(describe(pair, layout));
    const auto shown = static_cast<Index>(comparison.first.size() + comparison.last.size());
    if (shown < comparison.mismatched)
        add("... " + std::to_string(comparison.mismatched - shown) + " more ...");
    for (const Pair& pair : comparison.last)
        add(describe(pair, layout));
    if (comparison.greatest) {
        const Pair& pair = *comparison.greatest;
        add("greatest difference " + shortest(pair.difference) + ": " + describe(pair, layout, ""));
    }
    return text;
}

std::string with_bits(float value) {
    char bits[16];
    std::snprintf(bits, sizeof bits, "0x%08x", std::bit_cast<std::uint32_t>(value));
    return shortest(value) + " (" + bits + ")";
}

Status verdict(Index compared, Index mismatched, Index nonzero, Index eligible) {
    if (mismatched > 0)
        return Status::failed;
    if (compared == 0)
        return Status::untested;
    if (eligible > 0 && static_cast<double>(nonzero) < least_nonzero_share * static_cast<double>(eligible))
        return Status::mistrusted;
    return Status::passed;
}

} // namespace truestep::verify

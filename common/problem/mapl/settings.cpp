// Checks MAPL's settings and its subspace A, and makes the matrices that both sides begin with.
#include <truestep/problem/mapl/settings.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>

#include "normal.hpp"

namespace truestep::problem::mapl {

namespace {

constexpr Anchors all_anchors[]{Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two};
constexpr Order all_orders[]{Order::project_first, Order::momentum_first};

double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

/// Makes rows of normal data orthonormal one after the other: Q of a QR whose R has a positive
/// diagonal. Each row is projected twice, so that it keeps no part of those before it.
std::vector<std::vector<double>> orthonormal(Index rows, Index width, std::uint64_t seed) {
    std::vector<std::vector<double>> all;
    std::uint64_t drawn = 0;
    while (all.size() < static_cast<std::size_t>(rows)) {
        std::vector<double> row(static_cast<std::size_t>(width));
        for (double& value : row)
            value = normal(seed, drawn++);
        const double before = std::sqrt(dot(row, row));
        for (int pass = 0; pass < 2; ++pass)
            for (const std::vector<double>& other : all) {
                const double share = dot(row, other);
                for (std::size_t i = 0; i < row.size(); ++i)
                    row[i] -= share * other[i];
            }
        const double length = std::sqrt(dot(row, row));
        if (!(length > 1e-8 * before)) // it lay in their span: draw another
            continue;
        for (double& value : row)
            value /= length;
        all.push_back(std::move(row));
    }
    return all;
}

} // namespace

std::string_view name(Anchors anchors) {
    switch (anchors) {
    case Anchors::none:
        return "none";
    case Anchors::fixed:
        return "fixed";
    case Anchors::shared:
        return "shared";
    case Anchors::two:
        break;
    }
    return "two";
}

std::string_view name(Order order) {
    return order == Order::project_first ? "project_first" : "momentum_first";
}

std::string_view name(Payload payload) {
    return payload == Payload::fp32 ? "fp32" : "bf16";
}

Anchors parse_anchors(std::string_view text) {
    for (const Anchors anchors : all_anchors)
        if (name(anchors) == text)
            return anchors;
    throw Error("anchors: '" + std::string(text) + "' is unknown; use none, fixed, shared or two");
}

Order parse_order(std::string_view text) {
    for (const Order order : all_orders)
        if (name(order) == text)
            return order;
    throw Error("order: '" + std::string(text) + "' is unknown; use project_first or momentum_first");
}

Payload parse_payload(std::string_view text) {
    for (const Payload payload : {Payload::fp32, Payload::bf16})
        if (name(payload) == text)
            return payload;
    throw Error("payload: '" + std::string(text) + "' is unknown; use fp32 or bf16");
}

void check(const Settings& settings) {
    const auto wrong = [](const char* what, const auto value, const std::string& rule) {
        throw Error(std::string(what) + " is " + shortest(value) + "; " + rule);
    };
    if (settings.width < 1 || settings.width > greatest_width)
        wrong("width", settings.width, "it must be from 1 to 2^24");
    if (settings.rank < 1 || settings.rank > settings.width)
        wrong("rank", settings.rank,
              "it must be from 1 to the width, which is " + std::to_string(settings.width));
    if (settings.vocabulary < 1 || settings.vocabulary > greatest_vocabulary)
        wrong("vocabulary", settings.vocabulary, "it must be from 1 to 2^32");
    if (!(settings.beta >= 0.0 && settings.beta < 1.0))
        wrong("beta", settings.beta, "it must be at least 0 and less than 1");
    for (const auto& [what, count] : {std::pair("direction_iterations", settings.direction_iterations),
                                      std::pair("retraction_iterations", settings.retraction_iterations)})
        if (count < 1 || count > most_iterations)
            wrong(what, count, "it must be from 1 to " + std::to_string(most_iterations));
    check_quantization(settings);
}

void check_rate(double rate) {
    if (!(rate >= 0.0 && rate < greatest_rate))
        throw Error("rate of the subspace is " + shortest(rate) +
                    "; it must be at least 0 and less than 0.52, or the retraction may not come back");
}

double distance_to_manifold(std::span<const float> a, Index rank) {
    const auto r = static_cast<std::size_t>(rank);
    double greatest = 0.0;
    for (std::size_t i = 0; i < r; ++i) {
        double sum = 0.0;
        for (std::size_t j = 0; j < r; ++j) {
            double product = i == j ? -1.0 : 0.0;
            for (std::size_t row = 0; row < a.size(); row += r)
                product += static_cast<double>(a[row + i]) * static_cast<double>(a[row + j]);
            sum += std::abs(product);
        }
        greatest = std::isfinite(sum) ? std::max(greatest, sum) : sum;
        if (!std::isfinite(sum))
            break;
    }
    return greatest;
}

double manifold_tolerance(Index width, Index rank) {
    // Each entry of A^T A sums D products, whose roundings add up like independent ones. The factor
    // 16 is a margin for the rest; runs of 10,000 steps stay within it (tests).
    return 16.0 * 0x1p-24 * static_cast<double>(rank) * std::sqrt(static_cast<double>(width));
}

double manifold_bound(const Settings& settings, Index steps) {
    const double rounding = manifold_tolerance(settings.width, settings.rank);
    if (steps == 0)
        return rounding;
    double left = 1.0 - greatest_rate;
    for (int t = 0; t < settings.retraction_iterations; ++t)
        left *= 1.875 + left * left * (-1.25 + 0.375 * left * left);
    return rounding + 2.0 * std::abs(1.0 - left);
}

void check_on_manifold(const Settings& settings, std::span<const float> a, Index steps) {
    if (a.size() != static_cast<std::size_t>(settings.width * settings.rank))
        throw Error("the subspace has " + std::to_string(a.size()) + " values; width " +
                    std::to_string(settings.width) + " and rank " + std::to_string(settings.rank) +
                    " make it " + std::to_string(settings.width * settings.rank));
    const double bound = manifold_bound(settings, steps);
    const double distance = distance_to_manifold(a, settings.rank);
    if (!(distance <= bound))
        throw Error("the subspace is off the manifold: |A^T A - I| is " + shortest(distance) +
                    ", and rounding explains " + shortest(bound) + "; retract it before");
}

void check_rows(const Settings& settings, std::span<const float> rows) {
    const auto rank = static_cast<std::size_t>(settings.rank);
    const auto width = static_cast<std::size_t>(settings.width);
    std::vector<float> columns(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
        columns[i % width * rank + i / width] = rows[i];
    const double distance = distance_to_manifold(columns, settings.rank);
    const double bound = manifold_tolerance(settings.width, settings.rank);
    if (!rows.empty() && !(distance <= bound))
        throw Error("P does not have orthonormal rows: |P P^T - I| is " + shortest(distance) +
                    ", and rounding explains " + shortest(bound) + "; use those of the seed");
}

std::size_t id_bytes(Index vocabulary) {
    std::size_t bytes = 1;
    for (auto most = static_cast<std::uint64_t>(vocabulary - 1) >> 8U; most > 0; most >>= 8U)
        ++bytes;
    return bytes;
}

std::vector<float> anchor_rows(const Settings& settings, Side side) {
    const bool other = settings.anchors == Anchors::two && side == Side::receiver;
    const std::uint64_t seed = problem::mix64(settings.seed + (other ? 2 : 1));
    std::vector<float> values;
    for (const std::vector<double>& row : orthonormal(settings.rank, settings.width, seed))
        for (const double value : row)
            values.push_back(static_cast<float>(value));
    return values;
}

std::vector<float> first_subspace(Index width, Index rank, std::uint64_t seed) {
    const auto rows = orthonormal(rank, width, problem::mix64(seed + 3));
    std::vector<float> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
        for (const std::vector<double>& row : rows)
            values.push_back(static_cast<float>(row[i]));
    return values;
}

} // namespace truestep::problem::mapl

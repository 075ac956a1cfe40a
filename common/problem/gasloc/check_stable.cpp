// Refuses settings that diverge, and names the nearest stable ones.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem::gasloc {

namespace {

/// The rate of settings that differ in alpha and gamma alone.
using RateOf = std::function<double(double alpha, double gamma)>;

/// Finds the border of the stable values by halving: `stable` lies on one side, `unstable` on the
/// other.
double border(double stable, double unstable, const std::function<double(double)>& rate) {
    for (int halving = 0; halving < 60; ++halving) {
        const double middle = (stable + unstable) / 2;
        (rate(middle) < 1.0 ? stable : unstable) = middle;
    }
    return stable;
}

std::string with_digits(double value, int digits) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::general, digits)
                         .ptr;
    return {buffer.data(), end};
}

/// Four digits, rounded so that every value beyond them is also beyond the border.
std::string border_text(double border, bool up) {
    const double unit = std::pow(10.0, std::floor(std::log10(border)) - 3);
    constexpr double noise = 1e-6; // a border of 1 is found as 0.99999999999
    const double units = up ? std::ceil(border / unit - noise) : std::floor(border / unit + noise);
    return with_digits(units * unit, 4);
}

/// "a gamma below 0.7437": the nearest change of one setting alone.
std::string advice(const RateOf& rate, double alpha, double gamma) {
    constexpr double great_gamma = 0.999; // gammas that are stable only above this are no advice
    // A small enough alpha is always stable: the workers then nearly run by themselves.
    const double least = border(0.0, alpha, [&](double value) { return rate(value, gamma); });
    std::string text = "an alpha below " + border_text(least, false);
    // If both are equally near, the advice names alpha.
    double distance = alpha - least - 1e-9;
    const auto of_gamma = [&](double value) { return rate(alpha, value); };
    const auto consider = [&](double stable, const char* words, bool up) {
        if (stable == gamma || !(of_gamma(stable) < 1.0))
            return;
        const double found = border(stable, gamma, of_gamma);
        if (std::abs(found - gamma) < distance) {
            distance = std::abs(found - gamma);
            text = words + border_text(found, up);
        }
    };
    consider(0.0, "a gamma below ", false);
    consider(great_gamma, "a gamma above ", true);
    return text;
}

void refuse_unstable(const Settings& settings, int workers, const std::string& under, bool of_squares,
                     const RateOf& rate) {
    const double value = rate(settings.alpha, settings.gamma);
    if (value < 1.0)
        return;
    const std::string grows = value < 1.01 ? " does not shrink"
                                           : " grows by " + with_digits(value, 3) + " a round" +
                                                 (of_squares ? " (mean square)" : "");
    throw Error("alpha is " + shortest(settings.alpha) + " and gamma " + shortest(settings.gamma) +
                ": disagreement of " + std::to_string(workers) + " workers under the " + under + grows +
                "; use " + advice(rate, settings.alpha, settings.gamma) + ", or allow_unstable");
}

/// A worker's edge weights add up to its row's sum of magnitudes in Lambda, and no eigenvalue exceeds
/// the greatest such sum (Gershgorin).
double bound(const Graph& graph, int workers) {
    std::vector<double> sums(static_cast<std::size_t>(workers));
    for (const Edge& edge : graph) {
        sums[static_cast<std::size_t>(edge.a)] += edge.weight;
        sums[static_cast<std::size_t>(edge.b)] += edge.weight;
    }
    return *std::max_element(sums.begin(), sums.end());
}

/// The greatest eigenvalue alone decides: all values up to a certain one are stable, all above it
/// are not. Workers that the graph does not join (eigenvalue 0) keep their distance, which does no
/// harm.
void check_graph(const Graph& graph, const Settings& settings, int workers, const std::string& under) {
    const auto rate_of = [&settings](double eigenvalue) {
        return [&settings, eigenvalue](double alpha, double gamma) {
            return fixed_rate({eigenvalue}, alpha, gamma, settings.momentum);
        };
    };
    // Most graphs need no eigenvalues.
    if (graph.empty() || rate_of(bound(graph, workers))(settings.alpha, settings.gamma) < 1.0)
        return;
    refuse_unstable(settings, workers, under, false, rate_of(eigenvalues(graph, workers).back()));
}

} // namespace

void check_stable(const Settings& settings, int workers, const std::vector<Graph>& given) {
    check_law(settings.law, workers);
    if (settings.allow_unstable || workers == 1 || settings.alpha == 0.0 || settings.law == Law::none)
        return;
    if (settings.law == Law::given) {
        for (std::size_t round = 0; round < given.size(); ++round)
            if (round == 0 || given[round] != given[round - 1])
                check_graph(given[round], settings, workers, "graph of round " + std::to_string(round + 1));
        return;
    }
    Settings changed = settings;
    refuse_unstable(settings, workers, "law " + std::string(name(settings.law)),
                    rate(settings, workers).of_squares, [&](double alpha, double gamma) {
                        changed.alpha = alpha;
                        changed.gamma = gamma;
                        return rate(changed, workers).value;
                    });
}

} // namespace truestep::problem::gasloc

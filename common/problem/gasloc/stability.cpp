// Computes how fast GASLoC's disagreement fades or grows, and the settings that end it soonest.
#include <truestep/problem/gasloc/stability.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <vector>

#include <truestep/problem/error.hpp>

namespace truestep::problem::gasloc {

namespace {

/// A round as a 2 x 2 matrix, row by row. It maps a component of disagreement and its value one
/// round before.
struct Map {
    double a = 1.0, b = 0.0, c = 0.0, d = 1.0;
};

Map map_of(double eigenvalue, double alpha, double gamma, Momentum momentum) {
    const double kept = 1 - alpha * eigenvalue;
    if (momentum == Momentum::local)
        return {kept + gamma, -gamma, 1, 0};
    return {kept * (1 + gamma), -kept * gamma, 1, 0};
}

/// The composition: `before` first, then `map`.
Map after(const Map& map, const Map& before) {
    return {map.a * before.a + map.b * before.c, map.a * before.b + map.b * before.d,
            map.c * before.a + map.d * before.c, map.c * before.b + map.d * before.d};
}

double spectral_radius(const Map& map) {
    const double half = (map.a + map.d) / 2;
    const double determinant = map.a * map.d - map.b * map.c;
    const double under_root = half * half - determinant;
    const double radius = under_root < 0 ? std::sqrt(determinant) : std::abs(half) + std::sqrt(under_root);
    return std::isnan(radius) ? std::numeric_limits<double>::infinity()
                              : radius; // beyond what a double holds
}

/// The eigenvalues of graphs that take turns and share their eigenvectors: for each eigenvector,
/// its eigenvalue in each round.
using Turns = std::vector<std::vector<double>>;

double turns_rate(const Turns& turns, double alpha, double gamma, Momentum momentum) {
    double greatest = 0.0;
    for (const std::vector<double>& rounds : turns) {
        Map map;
        for (const double eigenvalue : rounds)
            map = after(map_of(eigenvalue, alpha, gamma, momentum), map);
        greatest =
            std::max(greatest, std::pow(spectral_radius(map), 1.0 / static_cast<double>(rounds.size())));
    }
    return greatest;
}

/// (1 - v) / 2, where v is the value of eigenvector `number` at a worker; v is 1 at worker 0. The
/// eigenvectors are those of graphs that look alike from every worker: Walsh functions on a
/// hypercube, waves on a circle.
double half_fall(Law law, int workers, int number, int worker) {
    if (law == Law::hypercube)
        return std::popcount(static_cast<unsigned>(number) & static_cast<unsigned>(worker)) % 2;
    const auto steps = static_cast<double>(Index{number} * worker % workers);
    const double sine = std::sin(std::numbers::pi * steps / workers);
    return sine * sine;
}

/// The eigenvalues of a law whose graphs look alike from every worker, so that worker 0's
/// neighbours suffice. The graph lists each neighbour once, even if two ways lead to it.
Turns turns_of(Law law, int workers) {
    if (law == Law::complete)
        return {{1.0}}; // exactly, without the roundings of a sum
    // A wave and its mirror image have the same eigenvalue.
    const int last = law == Law::hypercube ? workers - 1 : workers / 2;
    Turns turns(static_cast<std::size_t>(last));
    for (Index round = 1; round <= period_of(law, workers); ++round) {
        const std::vector<Neighbour> around = neighbours(graph_of(law, 0, round, workers), 0);
        for (int number = 1; number <= last; ++number) {
            double eigenvalue = 0.0;
            for (const Neighbour& neighbour : around)
                eigenvalue += neighbour.weight * half_fall(law, workers, number, neighbour.worker);
            turns[static_cast<std::size_t>(number) - 1].push_back(eigenvalue);
        }
    }
    return turns;
}

bool is_random(Law law) {
    return law == Law::pairs || law == Law::two_peers;
}

} // namespace

double fixed_rate(const std::vector<double>& eigenvalues, double alpha, double gamma, Momentum momentum) {
    double greatest = 0.0;
    for (const double eigenvalue : eigenvalues)
        greatest = std::max(greatest, spectral_radius(map_of(eigenvalue, alpha, gamma, momentum)));
    return greatest;
}

Moments moments(Law law, int workers) {
    const double others = workers - 1;
    if (law == Law::two_peers && workers > 2)
        return {workers / others, 1.5 * workers / others};
    const int couples = workers / 2; // with an odd number one worker idles
    return {couples / others, couples / others};
}

double random_rate(Moments moments, double alpha, double gamma, Momentum momentum) {
    // The map of (A, B, C) is  a b c / d e 0 / 1 0 0.
    const double mean = 1 - alpha * moments.p;
    const double square = 1 - 2 * alpha * moments.p + alpha * alpha * moments.q;
    const bool local = momentum == Momentum::local;
    const double a = local ? square + gamma * (gamma + 2 * mean) : square * (1 + gamma) * (1 + gamma);
    const double b = -2 * gamma * (local ? gamma + mean : square * (1 + gamma));
    const double c = gamma * gamma * (local ? 1 : square);
    const double d = local ? gamma + mean : mean * (1 + gamma);
    const double e = local ? -gamma : -mean * gamma;
    // Its characteristic polynomial is z^3 - c2 z^2 + c1 z - c0.
    const double c2 = a + e;
    const double c1 = a * e - b * d - c;
    const double c0 = -c * e;
    // The map takes possible mean squares to possible mean squares, so its spectral radius is
    // itself its greatest real root. Newton's steps from above reach it without passing it.
    double z = 1 + std::max({std::abs(c2), std::abs(c1), std::abs(c0)});
    for (int step = 0; step < 200; ++step) {
        const double slope = (3 * z - 2 * c2) * z + c1;
        const double next = z - (((z - c2) * z + c1) * z - c0) / slope;
        if (!(slope > 0) || !(next < z))
            break;
        z = next;
    }
    return std::max(z, 0.0);
}

Rate rate(const Settings& settings, int workers) {
    check_law(settings.law, workers);
    if (workers == 1)
        return {0.0, false};
    if (settings.alpha == 0.0 || settings.law == Law::none)
        return {1.0, false};
    if (settings.law == Law::given)
        throw Error("law: the rate of an explicit graph does not follow from the law");
    if (is_random(settings.law))
        return {
            random_rate(moments(settings.law, workers), settings.alpha, settings.gamma, settings.momentum),
            true};
    return {turns_rate(turns_of(settings.law, workers), settings.alpha, settings.gamma, settings.momentum),
            false};
}

Best best(double least, double greatest) {
    const double sum = std::sqrt(greatest) + std::sqrt(least);
    const double root = (std::sqrt(greatest) - std::sqrt(least)) / sum;
    return {4 / (sum * sum), root * root, root};
}

Best best_plain(double least, double greatest) {
    return {2 / (greatest + least), 0.0, (greatest - least) / (greatest + least)};
}

std::vector<double> disagreement(const std::vector<double>& eigenvalues, double alpha, double gamma,
                                 Momentum momentum, Index rounds) {
    std::vector<double> left(static_cast<std::size_t>(rounds) + 1);
    for (const double eigenvalue : eigenvalues) {
        const Map map = map_of(eigenvalue, alpha, gamma, momentum);
        double now = 1.0;
        double before = 1.0;
        for (double& sum : left) {
            sum += now * now;
            const double next = map.a * now + map.b * before;
            before = now;
            now = next;
        }
    }
    for (double& sum : left)
        sum = std::sqrt(sum / static_cast<double>(eigenvalues.size()));
    return left;
}

} // namespace truestep::problem::gasloc

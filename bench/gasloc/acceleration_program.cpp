// How fast disagreement fades on a ring, without and with section 15's best momentum: simulated
// workers compared with the formula, and the plot of both.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>

#include "model/plot.hpp"

namespace {

using namespace truestep;
using problem::gasloc::Best;
using problem::gasloc::Index;

constexpr double gone = 1e-6;
constexpr Index most_rounds = 5000;

/// n workers with `parameters` numbers each, all random at first.
std::vector<std::vector<double>> random_start(std::size_t workers) {
    constexpr std::size_t parameters = 64;
    std::mt19937 random(1);
    std::vector<std::vector<double>> start(workers, std::vector<double>(parameters));
    for (std::vector<double>& theta : start)
        for (double& number : theta)
            number = static_cast<double>(random()) - 0x1p31;
    return start;
}

/// The distance of all workers from their mean, as a norm.
double disagreement_of(const std::vector<std::vector<double>>& all) {
    double sum = 0.0;
    for (std::size_t p = 0; p < all[0].size(); ++p) {
        double mean = 0.0;
        for (const std::vector<double>& theta : all)
            mean += theta[p] / static_cast<double>(all.size());
        for (const std::vector<double>& theta : all)
            sum += (theta[p] - mean) * (theta[p] - mean);
    }
    return std::sqrt(sum);
}

/// Runs section 13 without drift, placement local. Returns the disagreement after each round until
/// it is gone.
std::vector<double> played(std::size_t workers, const Best& choice) {
    std::vector<std::vector<double>> now = random_start(workers);
    std::vector<std::vector<double>> before = now;
    const double first = disagreement_of(now);
    std::vector<double> left{1.0};
    while (left.back() > gone && left.size() < most_rounds) {
        std::vector<std::vector<double>> next = now;
        for (std::size_t i = 0; i < workers; ++i) {
            const std::vector<double>& y = now[i];
            const std::vector<double>& right = now[(i + 1) % workers];
            const std::vector<double>& other = now[(i + workers - 1) % workers];
            for (std::size_t p = 0; p < y.size(); ++p)
                next[i][p] = y[p] - choice.alpha / 2 * ((y[p] - right[p]) + (y[p] - other[p])) +
                             choice.gamma * (y[p] - before[i][p]);
        }
        before = std::move(now);
        now = std::move(next);
        left.push_back(disagreement_of(now) / first);
    }
    return left;
}

std::vector<double> predicted(int workers, const Best& choice) {
    std::vector<double> eigenvalues;
    for (int k = 1; k < workers; ++k)
        eigenvalues.push_back(1 - std::cos(2 * std::numbers::pi * k / workers));
    return problem::gasloc::disagreement(eigenvalues, choice.alpha, choice.gamma,
                                         problem::gasloc::Momentum::local, most_rounds);
}

int rounds_until_gone(const std::vector<double>& left) {
    int rounds = 0;
    while (left[static_cast<std::size_t>(rounds)] > gone)
        ++rounds;
    return rounds;
}

/// Points for the plot at even distances of rounds, while disagreement is left.
model::Curve thinned(const std::vector<double>& left, int per_decade) {
    model::Curve curve;
    for (int i = 0;; ++i) {
        const double round = std::round(std::pow(10.0, static_cast<double>(i) / per_decade));
        if (round >= rounds_until_gone(left))
            return curve;
        if (!curve.x.empty() && round == curve.x.back())
            continue;
        curve.x.push_back(round);
        curve.y.push_back(left[static_cast<std::size_t>(round)]);
    }
}

/// The line through them, up to where it leaves the plot between two rounds.
model::Curve line_of(const std::vector<double>& left) {
    model::Curve curve = thinned(left, 60);
    const auto beyond = static_cast<std::size_t>(rounds_until_gone(left));
    const double share = std::log(left[beyond - 1] / gone) / std::log(left[beyond - 1] / left[beyond]);
    curve.x.push_back(static_cast<double>(beyond) - 1 + share);
    curve.y.push_back(gone);
    return curve;
}

struct Rounds {
    int predicted = 0, played = 0;
};
/// Adds the line and the points, and returns the rounds of both.
Rounds add(model::Plot& plot, int workers, const std::string& name, const Best& choice) {
    const std::vector<double> formula = predicted(workers, choice);
    const std::vector<double> measured = played(static_cast<std::size_t>(workers), choice);
    model::Curve line = line_of(formula);
    line.name = "n = " + std::to_string(workers) + ", " + name;
    model::Curve points = thinned(measured, 6);
    points.points = true;
    plot.curves.push_back(line);
    plot.curves.push_back(points);
    return {rounds_until_gone(formula), rounds_until_gone(measured)};
}

void run(const std::string& folder) {
    model::Plot plot{"What is left of a ring's disagreement (points), and the formula (lines)",
                     "round",
                     "disagreement, 1 at first",
                     {}};
    std::printf("rounds until %g is left of a ring's disagreement\n", gone);
    std::printf("%7s %9s %9s %12s %9s %7s\n", "workers", "plain", "played", "accelerated", "played",
                "times");
    for (const int workers : {8, 16, 32, 64}) {
        const double least = 1 - std::cos(2 * std::numbers::pi / workers);
        const Rounds plain = add(plot, workers, "plain", problem::gasloc::best_plain(least, 2));
        const Rounds accelerated = add(plot, workers, "accelerated", problem::gasloc::best(least, 2));
        std::printf("%7d %9d %9d %12d %9d %7.1f\n", workers, plain.predicted, plain.played,
                    accelerated.predicted, accelerated.played,
                    static_cast<double>(plain.predicted) / accelerated.predicted);
    }
    if (folder.empty())
        return;
    const std::string file = (std::filesystem::path(folder) / "ring-acceleration.svg").string();
    if (!(std::ofstream(file) << plot.svg()))
        throw Error("cannot write " + file);
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        std::fprintf(stderr,
                     "usage: bench_acceleration [FOLDER]     also draws FOLDER/ring-acceleration.svg\n");
        return 2;
    }
    try {
        run(argc == 2 ? argv[1] : "");
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_acceleration: %s\n", error.what());
        return 2;
    }
}

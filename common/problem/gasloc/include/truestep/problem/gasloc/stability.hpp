#pragma once

#include <vector>

#include <truestep/problem/gasloc/settings.hpp>

// Section 15: how disagreement between workers develops when nothing drifts. Under placement local
// it is disagreement of theta, under gossiped of z.

namespace truestep::problem::gasloc {

/// The eigenvalues of Lambda of any graph, ascending, with the 0 of agreement.
[[nodiscard]] std::vector<double> eigenvalues(const Graph& graph, int workers);

/// The factor by which disagreement shrinks a round in the long run, on a graph that does not
/// change. The eigenvalues are those of the components that disagree.
[[nodiscard]] double fixed_rate(const std::vector<double>& eigenvalues, double alpha, double gamma,
                                Momentum momentum);

/// E Lambda = p and E Lambda^2 = q on every component that disagrees.
struct Moments {
    double p = 0.0;
    double q = 0.0;
};
/// The moments of `pairs` or `two_peers`, for two workers or more.
[[nodiscard]] Moments moments(Law law, int workers);
/// The factor of the mean square.
[[nodiscard]] double random_rate(Moments moments, double alpha, double gamma, Momentum momentum);

struct Rate {
    double value = 0.0;      ///< 1: disagreement stays; more: it grows
    bool of_squares = false; ///< for random graphs: the rate of the mean square
};
/// The rate of any law but `given`. It is 1 where nothing brings workers together (alpha = 0,
/// `none`), and 0 for one worker, who has no one to disagree with.
[[nodiscard]] Rate rate(const Settings& settings, int workers);

/// The fastest alpha and gamma of a fixed graph under placement local, and the fastest alpha
/// without momentum. They follow from the least eigenvalue that is not 0 and the greatest.
struct Best {
    double alpha = 0.0;
    double gamma = 0.0;
    double rate = 0.0;
};
[[nodiscard]] Best best(double least, double greatest);
[[nodiscard]] Best best_plain(double least, double greatest);

/// The disagreement left after 0, 1, ..., `rounds` rounds on a graph that does not change: the root
/// mean square over all starts, 1 at first. The eigenvalues are those of the components that
/// disagree.
[[nodiscard]] std::vector<double> disagreement(const std::vector<double>& eigenvalues, double alpha,
                                               double gamma, Momentum momentum, Index rounds);

/// Throws truestep::Error, one line with the rate and the nearest stable gamma or alpha, unless the
/// settings are stable or allow unstable ones. They have to pass `check`. `given` holds the graphs
/// of the law `explicit`, one a round, each as `checked` returns it.
void check_stable(const Settings& settings, int workers, const std::vector<Graph>& given = {});

} // namespace truestep::problem::gasloc

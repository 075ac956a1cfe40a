#pragma once

#include <vector>

#include <truestep/problem/gasloc/settings.hpp>

// Section 15: what becomes of disagreement between workers when nothing drifts. It is disagreement of theta
// under placement local, of z under gossiped.

namespace truestep::problem::gasloc {

/// Eigenvalues of Lambda, ascending, that of agreement (0) included; any graph.
[[nodiscard]] std::vector<double> eigenvalues(const Graph& graph, int workers);

/// By which factor disagreement shrinks a round in the long run, on a graph that stays as it is; the
/// eigenvalues are those of what disagrees.
[[nodiscard]] double fixed_rate(const std::vector<double>& eigenvalues, double alpha, double gamma,
                                Momentum momentum);

/// E Lambda = p and E Lambda^2 = q on all that disagrees.
struct Moments {
    double p = 0.0;
    double q = 0.0;
};
/// Of `pairs` or `two_peers`, two workers or more.
[[nodiscard]] Moments moments(Law law, int workers);
/// The factor of the mean square.
[[nodiscard]] double random_rate(Moments moments, double alpha, double gamma, Momentum momentum);

struct Rate {
    double value = 0.0;      ///< 1: disagreement stays; more: it grows
    bool of_squares = false; ///< of random graphs: the mean square's
};
/// Of any law but `given`. Where nothing brings workers together (alpha = 0, `none`) it is 1; one worker
/// disagrees with nobody, 0.
[[nodiscard]] Rate rate(const Settings& settings, int workers);

/// The fastest alpha and gamma of a fixed graph, placement local, and the fastest alpha without momentum:
/// from the least eigenvalue that is not 0 and the greatest.
struct Best {
    double alpha = 0.0;
    double gamma = 0.0;
    double rate = 0.0;
};
[[nodiscard]] Best best(double least, double greatest);
[[nodiscard]] Best best_plain(double least, double greatest);

/// What is left of disagreement after 0, 1, ..., `rounds` rounds on a graph that stays as it is: the root
/// mean square over all starts, 1 at first. The eigenvalues are those of what disagrees.
[[nodiscard]] std::vector<double> disagreement(const std::vector<double>& eigenvalues, double alpha,
                                               double gamma, Momentum momentum, Index rounds);

/// Throws truestep::Error, one line with the rate and the nearest stable gamma or alpha, unless the
/// settings are stable or allow what is not. They have to pass `check`; `given`: the graphs of the law
/// `explicit`, round by round, each as `checked` returns it.
void check_stable(const Settings& settings, int workers, const std::vector<Graph>& given = {});

} // namespace truestep::problem::gasloc

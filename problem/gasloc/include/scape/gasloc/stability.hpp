#pragma once

#include <vector>

#include <scape/gasloc/settings.hpp>

// Section 15: what becomes of disagreement between workers when nothing drifts.

namespace scape::gasloc {

/// How disagreement shrinks, a round: by this factor in the mean. 1 and more: it does not.
struct Rate {
    double value = 0.0;
    bool of_squares = false; ///< of random graphs: of the mean square
};

/// Eigenvalues of Lambda, ascending, the one of agreement (0, all alike) included. Any graph.
[[nodiscard]] std::vector<double> eigenvalues(const Graph& graph, int workers);

/// Of a graph that stays as it is, from its eigenvalues but that of agreement.
[[nodiscard]] double fixed_rate(const std::vector<double>& eigenvalues, double alpha, double gamma,
                                Momentum momentum);
/// Of random ones, from p and q.
[[nodiscard]] double random_rate(double p, double q, double alpha, double gamma, Momentum momentum);

/// Of a law; not of `given`. With one worker, and where nothing brings them together (alpha = 0, `none`),
/// gamma decides alone.
[[nodiscard]] Rate rate(const Settings& settings, int workers);

/// The fastest alpha and gamma of a fixed graph, placement local: from the least eigenvalue that is not 0
/// and the greatest.
struct Best {
    double alpha = 0.0;
    double gamma = 0.0;
    double rate = 0.0;
};
[[nodiscard]] Best best(double least, double greatest);
/// The least factor that plain gossip has (gamma = 0), and its alpha.
[[nodiscard]] Best best_plain(double least, double greatest);

/// Throws scape::Error, one line with the rate and the nearest stable value of alpha, or of gamma where
/// that is nearer, unless the settings are stable or allow what is not. `given`: the graphs of the law
/// `explicit`, round by round.
void check_stable(const Settings& settings, int workers, const std::vector<Graph>& given = {});

} // namespace scape::gasloc

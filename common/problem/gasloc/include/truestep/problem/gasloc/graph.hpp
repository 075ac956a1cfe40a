// Which workers of GASLoC meet in a round: the laws and the graphs that they give.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem::gasloc {

using problem::Index;

/// The rule by which workers meet (section 14).
enum class Law : std::uint8_t { pairs, two_peers, ring, exponential, hypercube, complete, none, given };
constexpr Law all_laws[]{Law::pairs,     Law::two_peers, Law::ring, Law::exponential,
                         Law::hypercube, Law::complete,  Law::none, Law::given};

/// The name of a law, as "two_peers"; that of `given` is "explicit".
[[nodiscard]] std::string_view name(Law law);
/// Throws truestep::Error that lists the laws.
[[nodiscard]] Law parse_law(std::string_view text);

/// Two workers that meet, a < b.
struct Edge {
    int a = 0;
    int b = 0;
    double weight = 1.0; ///< lambda

    friend bool operator==(const Edge&, const Edge&) = default;
};
/// The edges of one round, ascending by a, then by b, without repeated pairs.
using Graph = std::vector<Edge>;

/// Throws truestep::Error if the law does not allow this number of workers.
void check_law(Law law, int workers);
/// The graph of a round, the first of which is 1. Not for the law `given`.
[[nodiscard]] Graph graph_of(Law law, std::uint64_t seed, Index round, int workers);
/// After how many rounds a law's graphs repeat; 0: never.
[[nodiscard]] Index period_of(Law law, int workers);

/// Returns a given graph in order. Throws truestep::Error, which begins with `where`, for an edge
/// from a worker to itself, a repeated edge, a worker that does not exist, or a weight that is not
/// positive.
[[nodiscard]] Graph checked(Graph edges, int workers, const std::string& where);

struct Neighbour {
    int worker = 0;
    double weight = 1.0;

    friend bool operator==(const Neighbour&, const Neighbour&) = default;
};
/// The neighbours of a worker, ascending.
[[nodiscard]] std::vector<Neighbour> neighbours(const Graph& graph, int worker);

/// The random numbers behind the laws.
[[nodiscard]] std::uint64_t random_number(std::uint64_t seed, Index round, int number);
/// The workers 0..workers-1, in the order that the round draws.
[[nodiscard]] std::vector<int> permutation(std::uint64_t seed, Index round, int workers);

} // namespace truestep::problem::gasloc

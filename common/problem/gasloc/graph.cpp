// Draws GASLoC's graph of each round by its law: pairs, rings, hypercubes and others.
#include <truestep/problem/gasloc/graph.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem::gasloc {

namespace {

constexpr std::string_view names[]{"pairs",     "two_peers", "ring", "exponential",
                                   "hypercube", "complete",  "none", "explicit"};

// 128 bits are an extension of the compiler's.
__extension__ using Wide = unsigned __int128;

Edge edge(int a, int b, double weight = 1.0) {
    return {std::min(a, b), std::max(a, b), weight};
}

/// Joins each worker to the next in the list, and the last to the first.
Graph cycle(const std::vector<int>& workers) {
    Graph edges;
    const std::size_t count = workers.size() == 2 ? 1 : workers.size(); // two have one edge, not two
    for (std::size_t i = 0; i < count; ++i)
        edges.push_back(edge(workers[i], workers[(i + 1) % workers.size()]));
    return edges;
}

int bits(int workers) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(workers) - 1));
}

} // namespace

std::string_view name(Law law) {
    return names[static_cast<std::size_t>(law)];
}

Law parse_law(std::string_view text) {
    const auto* const found = std::find(std::begin(names), std::end(names), text);
    if (found == std::end(names))
        throw Error("law: '" + std::string(text) +
                    "' is unknown; use pairs, two_peers, ring, exponential, hypercube, complete, none or "
                    "explicit");
    return static_cast<Law>(found - std::begin(names));
}

void check_law(Law law, int workers) {
    if (workers < 1)
        throw Error("workers is " + std::to_string(workers) + "; there is at least one");
    if (law == Law::hypercube && !std::has_single_bit(static_cast<unsigned>(workers)))
        throw Error("law: a hypercube of " + std::to_string(workers) +
                    " workers does not exist; use a power of two, or another law");
}

Graph graph_of(Law law, std::uint64_t seed, Index round, int workers) {
    check_law(law, workers);
    Graph edges;
    if (workers == 1)
        return edges;
    switch (law) {
    case Law::pairs: {
        const std::vector<int> p = permutation(seed, round, workers);
        for (std::size_t i = 0; i + 1 < p.size(); i += 2)
            edges.push_back(edge(p[i], p[i + 1]));
        break;
    }
    case Law::two_peers:
        edges = cycle(permutation(seed, round, workers));
        break;
    case Law::ring: {
        std::vector<int> all(static_cast<std::size_t>(workers));
        std::iota(all.begin(), all.end(), 0);
        edges = cycle(all);
        break;
    }
    case Law::exponential: {
        const int far = static_cast<int>(Index{1} << ((round - 1) % bits(workers)));
        for (int i = 0; i < workers; ++i)
            edges.push_back(edge(i, (i + far) % workers));
        break;
    }
    case Law::hypercube: {
        const int dimension = static_cast<int>(Index{1} << ((round - 1) % bits(workers)));
        for (int i = 0; i < workers; ++i)
            edges.push_back(edge(i, i ^ dimension));
        break;
    }
    case Law::complete:
        for (int a = 0; a < workers; ++a)
            for (int b = a + 1; b < workers; ++b)
                edges.push_back(edge(a, b, 2.0 / workers));
        break;
    case Law::none:
        break;
    case Law::given:
        throw Error("law: an explicit graph does not follow from a round; give its edges");
    }
    std::sort(edges.begin(), edges.end(),
              [](const Edge& x, const Edge& y) { return std::pair(x.a, x.b) < std::pair(y.a, y.b); });
    // Halfway around, or across a dimension, both ends name the same edge.
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return edges;
}

Index period_of(Law law, int workers) {
    if (workers == 1)
        return 1;
    switch (law) {
    case Law::pairs:
    case Law::two_peers:
    case Law::given:
        return 0;
    case Law::exponential:
    case Law::hypercube:
        return bits(workers);
    case Law::ring:
    case Law::complete:
    case Law::none:
        break;
    }
    return 1;
}

Graph checked(Graph edges, int workers, const std::string& where) {
    const auto wrong = [&where](const Edge& edge, const std::string& what) {
        throw Error(where + ": the edge between workers " + std::to_string(edge.a) + " and " +
                    std::to_string(edge.b) + " " + what);
    };
    for (Edge& edge : edges) {
        if (edge.a < 0 || edge.a >= workers || edge.b < 0 || edge.b >= workers)
            wrong(edge, "names one that does not exist; there are " + std::to_string(workers));
        if (edge.a == edge.b)
            wrong(edge, "leads back to where it begins; leave it out");
        if (!(edge.weight > 0.0) || !std::isfinite(edge.weight))
            wrong(edge, "has the weight " + shortest(edge.weight) + "; it must be positive");
        if (edge.a > edge.b)
            std::swap(edge.a, edge.b);
    }
    std::sort(edges.begin(), edges.end(),
              [](const Edge& x, const Edge& y) { return std::pair(x.a, x.b) < std::pair(y.a, y.b); });
    for (std::size_t i = 1; i < edges.size(); ++i)
        if (edges[i].a == edges[i - 1].a && edges[i].b == edges[i - 1].b)
            wrong(edges[i], "is there twice; a pair counts once");
    return edges;
}

std::vector<Neighbour> neighbours(const Graph& graph, int worker) {
    std::vector<Neighbour> found;
    for (const Edge& edge : graph) {
        if (edge.a == worker)
            found.push_back({edge.b, edge.weight});
        if (edge.b == worker)
            found.push_back({edge.a, edge.weight});
    }
    std::sort(found.begin(), found.end(),
              [](const Neighbour& x, const Neighbour& y) { return x.worker < y.worker; });
    return found;
}

std::uint64_t random_number(std::uint64_t seed, Index round, int number) {
    using problem::mix64;
    return mix64(mix64(seed ^ mix64(static_cast<std::uint64_t>(round))) +
                 static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15U);
}

std::vector<int> permutation(std::uint64_t seed, Index round, int workers) {
    std::vector<int> p(static_cast<std::size_t>(workers));
    std::iota(p.begin(), p.end(), 0);
    for (int k = workers - 1; k > 0; --k) {
        const Wide product = static_cast<Wide>(random_number(seed, round, k)) * static_cast<Wide>(k + 1);
        std::swap(p[static_cast<std::size_t>(k)], p[static_cast<std::size_t>(product >> 64U)]);
    }
    return p;
}

} // namespace truestep::problem::gasloc

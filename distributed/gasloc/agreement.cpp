// Compares the settings, parameters and rounds of GASLoC's workers, and names what differs.
#include "agreement.hpp"

#include <bit>
#include <string>
#include <vector>

#include <truestep/distributed/agreed_values.hpp>
#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/value_digest.hpp>

namespace truestep::distributed::gasloc {

namespace {

std::uint64_t digest_of(const std::vector<Graph>& graphs) {
    problem::Digest digest;
    for (const Graph& graph : graphs) {
        digest.add(graph.size());
        for (const Edge& edge : graph) {
            digest.add(static_cast<std::uint64_t>(edge.a));
            digest.add(static_cast<std::uint64_t>(edge.b));
            digest.add(std::bit_cast<std::uint64_t>(edge.weight));
        }
    }
    return digest.value();
}

std::vector<distributed::AgreedValue> values_of(const Settings& settings, const State& state) {
    std::vector<distributed::AgreedValue> values;
    visit_settings(settings, [&](const char* what, const auto& value, const auto&...) {
        values.push_back(agreed_value(what, value));
    });
    values.push_back({"other explicit edges", digest_of(settings.given)});
    values.push_back(agreed_value("the number of parameters", state.theta.size()));
    values.push_back(agreed_value("the round", state.rounds));
    // Workers differ by design, but not before the first round.
    values.push_back({"other parameters", state.rounds == 0 ? problem::digest_of(state.theta) : 0});
    return values;
}

} // namespace

void agree_on_settings(distributed::Peers& peers, const Settings& settings, const State& state) {
    const std::vector<distributed::AgreedValue> mine = values_of(settings, state);
    const auto all = distributed::gather_records(peers, record_of(mine));
    // The same line on all ranks: the first rank that differs from rank 0.
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (const std::string other = difference(mine, all[0], "rank 0", " where rank 0", all[rank]);
            !other.empty())
            throw Error("rank " + std::to_string(rank) + " has " + other +
                        "; start all ranks with the same");
}

} // namespace truestep::distributed::gasloc

// Compares the settings, parameters and rounds of GASLoC's workers, and names what differs.
#include "agreement.hpp"

#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/value_digest.hpp>

namespace truestep::distributed::gasloc {

namespace {

using problem::BiasCorrection;

/// A setting as it travels. Numbers travel as their bits, so that every bit is compared.
struct Value {
    const char* what;
    std::uint64_t bits;
    std::string (*told)(std::uint64_t bits);
};

std::string number(std::uint64_t bits) {
    return shortest(std::bit_cast<double>(bits));
}
std::string whole(std::uint64_t bits) {
    return std::to_string(bits);
}
/// The text for settings without a short name: it only says that they differ.
std::string unlike(std::uint64_t) {
    return "others";
}
template <class Choice>
std::string word(std::uint64_t bits) {
    return std::string(name(static_cast<Choice>(bits)));
}

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

std::vector<Value> values_of(const Settings& settings, const State& state) {
    const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
    const auto index = [](auto value) { return static_cast<std::uint64_t>(value); };
    const problem::HyperParameters& hyper = settings.hyper;
    std::vector<Value> values{{"inner", index(settings.inner), word<Inner>},
                              {"beta1", bits(hyper.beta1), number},
                              {"beta2", bits(hyper.beta2), number},
                              {"epsilon", bits(hyper.epsilon), number},
                              {"weight_decay", bits(hyper.weight_decay), number},
                              {"bias_correction", index(hyper.bias_correction), word<BiasCorrection>},
                              {"eta", bits(settings.eta), number},
                              {"alpha", bits(settings.alpha), number},
                              {"gamma", bits(settings.gamma), number},
                              {"momentum", index(settings.momentum), word<Momentum>},
                              {"law", index(settings.law), word<Law>},
                              {"seed", settings.seed, whole},
                              {"explicit edges", digest_of(settings.given), unlike},
                              {"the number of parameters", state.theta.size(), whole},
                              {"the round", index(state.rounds), whole}};
    // Workers differ by design, but not before the first round.
    if (state.rounds == 0)
        values.push_back({"parameters", problem::digest_of(state.theta), unlike});
    return values;
}

} // namespace

void agree_on_settings(distributed::Peers& peers, const Settings& settings, const State& state) {
    const std::vector<Value> mine = values_of(settings, state);
    // One length for all, even if only some begin anew.
    constexpr std::size_t most = 16;
    using Record = std::array<std::uint64_t, most>;
    Record record{};
    for (std::size_t i = 0; i < mine.size(); ++i)
        record[i] = mine[i].bits;
    const std::vector<Record> all = distributed::gather_records(peers, record);
    // The same line on all ranks: the first rank that differs from rank 0.
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        for (std::size_t i = 0; i < most; ++i)
            if (all[rank][i] != all[0][i]) {
                const bool named = i < mine.size() && mine[i].told != unlike;
                const std::string what = i < mine.size() ? mine[i].what : "parameters";
                throw Error(
                    "rank " + std::to_string(rank) + " has " + what + " " +
                    (named ? mine[i].told(all[rank][i]) + " where rank 0 has " + mine[i].told(all[0][i])
                           : "that are not those of rank 0") +
                    "; start all ranks with the same");
            }
}

} // namespace truestep::distributed::gasloc

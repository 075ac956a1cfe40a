// The settings of GASLoC, their checks, and their names in files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <truestep/problem/gasloc/graph.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::problem::gasloc {

enum class Inner : std::uint8_t { sgd, adams, adamw };
/// The vector from which the momentum is made: y (local) or z (gossiped), section 13.5.
enum class Momentum : std::uint8_t { local, gossiped };

[[nodiscard]] std::string_view name(Inner inner);
[[nodiscard]] std::string_view name(Momentum momentum);
/// Both throw truestep::Error that lists the words that would do.
[[nodiscard]] Inner parse_inner(std::string_view text);
[[nodiscard]] Momentum parse_momentum(std::string_view text);

/// The settings on which all workers must agree (section 12). The defaults are stable for any
/// number of workers.
struct Settings {
    Inner inner = Inner::adamw;
    problem::HyperParameters hyper{}; ///< of the inner optimizer
    double eta = 1.0;
    double alpha = 1.0;
    double gamma = 0.5;
    Momentum momentum = Momentum::local;
    Law law = Law::pairs;
    std::uint64_t seed = 1;
    std::vector<Graph> given{}; ///< the graphs of the law `explicit`, one a round; the list repeats
    bool allow_unstable = false;

    friend bool operator==(const Settings&, const Settings&) = default;
};

/// Calls visit(name, member) for each setting but the given graphs, in the order of the files. For
/// a word it also passes the function that parses it.
template <class AnySettings, class Visit>
void visit_settings(AnySettings& settings, const Visit& visit) {
    visit("inner", settings.inner, parse_inner);
    visit("beta1", settings.hyper.beta1);
    visit("beta2", settings.hyper.beta2);
    visit("epsilon", settings.hyper.epsilon);
    visit("weight_decay", settings.hyper.weight_decay);
    visit("bias_correction", settings.hyper.bias_correction, problem::parse<problem::BiasCorrection>);
    visit("eta", settings.eta);
    visit("alpha", settings.alpha);
    visit("gamma", settings.gamma);
    visit("momentum", settings.momentum, parse_momentum);
    visit("law", settings.law, parse_law);
    visit("seed", settings.seed);
    visit("allow_unstable", settings.allow_unstable);
}

constexpr std::uint64_t greatest_seed = std::uint64_t{1} << 53U; ///< JSON can hold no greater

/// Throws truestep::Error, one line, for settings that are wrong for any number of workers.
/// `check_stable` decides what is stable.
void check(const Settings& settings);

/// The graph of a round; the first round is 1.
[[nodiscard]] Graph graph_of(const Settings& settings, Index round, int workers);

} // namespace truestep::problem::gasloc

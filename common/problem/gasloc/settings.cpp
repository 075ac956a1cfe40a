// Checks GASLoC's settings, and converts its choices to words and back.
#include <truestep/problem/gasloc/settings.hpp>

#include <cmath>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem::gasloc {

std::string_view name(Inner inner) {
    switch (inner) {
    case Inner::sgd:
        return "sgd";
    case Inner::adams:
        return "adams";
    case Inner::adamw:
        break;
    }
    return "adamw";
}

std::string_view name(Momentum momentum) {
    return momentum == Momentum::local ? "local" : "gossiped";
}

Inner parse_inner(std::string_view text) {
    for (const Inner inner : {Inner::sgd, Inner::adams, Inner::adamw})
        if (name(inner) == text)
            return inner;
    throw Error("inner: '" + std::string(text) + "' is unknown; use sgd, adams or adamw");
}

Momentum parse_momentum(std::string_view text) {
    for (const Momentum momentum : {Momentum::local, Momentum::gossiped})
        if (name(momentum) == text)
            return momentum;
    throw Error("momentum: '" + std::string(text) + "' is unknown; use local or gossiped");
}

void check(const Settings& settings) {
    const auto wrong = [](const char* what, double value, const char* rule) {
        throw Error(std::string(what) + " is " + shortest(value) + "; " + rule);
    };
    if (!(settings.eta > 0.0) || !std::isfinite(settings.eta))
        wrong("eta", settings.eta, "it must be positive");
    if (!(settings.alpha >= 0.0) || !std::isfinite(settings.alpha))
        wrong("alpha", settings.alpha, "it must not be negative");
    if (!(settings.gamma >= 0.0 && settings.gamma < 1.0))
        wrong("gamma", settings.gamma, "it must be at least 0 and less than 1");
    if (settings.hyper.clip_norm != 0.0)
        wrong("clip_norm", settings.hyper.clip_norm, "gradients of inner steps are not clipped; use 0");
    if (settings.hyper.decay_order != problem::DecayOrder::first)
        throw Error("decay_order is together; inner steps decay first (section 13.2)");
    if (settings.seed > greatest_seed)
        throw Error("seed is " + std::to_string(settings.seed) + "; it must be at most 2^53");
    problem::check(settings.hyper);
}

Graph graph_of(const Settings& settings, Index round, int workers) {
    if (settings.law != Law::given)
        return graph_of(settings.law, settings.seed, round, workers);
    if (settings.given.empty())
        return {};
    const auto turn = static_cast<std::size_t>((round - 1) % static_cast<Index>(settings.given.size()));
    return checked(settings.given[turn], workers, "round " + std::to_string(round));
}

} // namespace truestep::problem::gasloc

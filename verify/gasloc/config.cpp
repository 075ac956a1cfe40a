// The metadata entry `config` of a trace of GASLoC: one JSON text (section 19).
#include <truestep/gasloc/traces.hpp>

#include <algorithm>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::gasloc {

namespace {

using nlohmann::json;
using trace::ObjectReader;

/// A vector for each inner step: beyond this the names alone fill memory.
constexpr Index most_inner_steps = 1'000'000;

Index whole(const json& value, const std::string& where) {
    if (!value.is_number_integer() || value.get<double>() < 0.0 ||
        value.get<double>() > static_cast<double>(most_inner_steps))
        throw Error(where + " has " + one_line(value.dump()) + "; it must be a whole number from 0 to " +
                    std::to_string(most_inner_steps));
    return value.get<Index>();
}

std::vector<std::vector<Index>> parse_inner_steps(const json& list, Index rounds, Index workers) {
    std::vector<std::vector<Index>> all;
    for (const json& of_round : list) {
        const std::string where = "inner_steps of round " + std::to_string(all.size() + 1);
        if (!of_round.is_array() || of_round.size() != static_cast<std::size_t>(workers))
            throw Error(where + " is no list of " + std::to_string(workers) + " numbers, one a worker");
        std::vector<Index>& steps = all.emplace_back();
        for (const json& of_worker : of_round)
            steps.push_back(whole(of_worker, where));
    }
    if (all.size() != static_cast<std::size_t>(rounds))
        throw Error("inner_steps has " + std::to_string(all.size()) + " rounds; steps says " +
                    std::to_string(rounds));
    return all;
}

Config parse(const json& object, const std::string& what) {
    ObjectReader reader(object, what);
    if (const std::string algorithm = reader.text("algorithm"); algorithm != "gasloc")
        throw Error("algorithm is '" + one_line(algorithm) + "'; this is read as gasloc");
    const Index workers = reader.integer("workers");
    problem::check_workers(workers);
    const Index rounds = reader.integer("steps");
    if (rounds < 1)
        throw Error("steps is " + std::to_string(rounds) + "; at least 1 round is needed");
    Settings settings;
    settings.inner = parse_inner(reader.text("inner"));
    settings.hyper.beta1 = reader.number("beta1");
    settings.hyper.beta2 = reader.number("beta2");
    settings.hyper.epsilon = reader.number("epsilon");
    settings.hyper.weight_decay = reader.number("weight_decay");
    const std::string bias =
        settings.inner == Inner::adams // the others have no choice
            ? reader.text("bias_correction")
            : reader.text_or("bias_correction", std::string(name(problem::BiasCorrection::adam)));
    settings.hyper.bias_correction = problem::parse<problem::BiasCorrection>(bias);
    settings.eta = reader.number("eta");
    settings.alpha = reader.number("alpha");
    settings.gamma = reader.number("gamma");
    settings.momentum = parse_momentum(reader.text("momentum"));
    settings.law = parse_law(reader.text("law"));
    const Index seed = reader.integer("seed");
    if (seed < 0)
        throw Error("seed is " + std::to_string(seed) + "; it must not be negative");
    settings.seed = static_cast<std::uint64_t>(seed);
    settings.allow_unstable = reader.truth("allow_unstable");
    problem::Layout layout = trace::parse_layout(reader.list("tensors"), what);
    if (layout.param_groups() > 1)
        throw Error(
            "tensors has a param_group, and GASLoC has one learning rate and weight decay; remove it");
    const Index edges = reader.integer("edges");
    if (edges < 0)
        throw Error("edges is " + std::to_string(edges) + "; it must not be negative");
    auto inner_steps = parse_inner_steps(reader.list("inner_steps"), rounds, workers);
    reader.finish();
    check(settings);
    check_law(settings.law, static_cast<int>(workers));
    return {settings, static_cast<int>(workers), std::move(layout), edges, std::move(inner_steps)};
}

} // namespace

Index Config::most_steps(Index round) const {
    return *std::ranges::max_element(inner_steps[static_cast<std::size_t>(round - 1)]);
}

Index Config::most_steps() const {
    Index most = 0;
    for (Index round = 1; round <= rounds(); ++round)
        most = std::max(most, most_steps(round));
    return most;
}

Config parse_config(const std::string& text, const std::string& what) {
    try {
        return parse(trace::parse_json(text, what), what);
    } catch (const Error& error) {
        const std::string message = one_line(error.what());
        throw Error(message.starts_with(what) ? message : what + ": " + message);
    }
}

std::string config_text(const Config& config) {
    const Settings& settings = config.settings;
    nlohmann::ordered_json json;
    json["algorithm"] = "gasloc";
    json["workers"] = config.workers;
    json["steps"] = config.rounds();
    json["inner"] = name(settings.inner);
    json["beta1"] = settings.hyper.beta1;
    json["beta2"] = settings.hyper.beta2;
    json["epsilon"] = settings.hyper.epsilon;
    json["weight_decay"] = settings.hyper.weight_decay;
    json["bias_correction"] = name(settings.hyper.bias_correction);
    json["eta"] = settings.eta;
    json["alpha"] = settings.alpha;
    json["gamma"] = settings.gamma;
    json["momentum"] = name(settings.momentum);
    json["law"] = name(settings.law);
    json["seed"] = settings.seed;
    json["allow_unstable"] = settings.allow_unstable;
    json["tensors"] = trace::layout_json(config.layout);
    json["edges"] = config.edges;
    json["inner_steps"] = config.inner_steps;
    return json.dump();
}

} // namespace truestep::gasloc

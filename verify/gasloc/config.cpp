// The metadata entry `config` of a trace of GASLoC: one JSON text (section 19).
#include <truestep/verify/gasloc/traces.hpp>

#include <algorithm>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::verify::gasloc {

namespace {

using nlohmann::json;
using trace::ObjectReader;

/// Each inner step has a vector: beyond this the names alone would fill the memory.
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
            throw Error(where + " must be a list of " + std::to_string(workers) +
                        " numbers, one for each worker");
        std::vector<Index>& steps = all.emplace_back();
        for (const json& of_worker : of_round)
            steps.push_back(whole(of_worker, where));
    }
    if (all.size() != static_cast<std::size_t>(rounds))
        throw Error("inner_steps has " + std::to_string(all.size()) + " rounds, but steps is " +
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
    visit_settings(settings, [&](const std::string& key, auto& value, auto... parse) {
        if (key == "bias_correction" && settings.inner != Inner::adams && !object.contains(key))
            return; // only AdamS has a choice
        reader.read(key, value, parse...);
    });
    problem::Layout layout = trace::parse_layout(reader.list("tensors"), what);
    if (layout.param_groups() > 1)
        throw Error(
            "tensors has a param_group, and GASLoC has one learning rate and weight decay; remove it");
    const Index edges = reader.count("edges");
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
    return trace::parse_config(text, what, [&](const json& object) { return parse(object, what); });
}

std::string config_text(const Config& config) {
    nlohmann::ordered_json json;
    json["algorithm"] = "gasloc";
    json["workers"] = config.workers;
    json["steps"] = config.rounds();
    visit_settings(config.settings, [&](const std::string& key, const auto& value, auto...) {
        trace::write_setting(json, key, value);
    });
    json["tensors"] = trace::layout_json(config.layout);
    json["edges"] = config.edges;
    json["inner_steps"] = config.inner_steps;
    return json.dump();
}

} // namespace truestep::verify::gasloc

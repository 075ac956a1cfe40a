// The metadata entry `config` of a trace of SCAPE or AdamS: one JSON text (section 9).
#include <truestep/verify/scape/trace.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::verify::scape {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using trace::ObjectReader;

int to_int(Index value) {
    return static_cast<int>(std::clamp<Index>(value, -1, problem::most_workers));
}

std::vector<problem::Segment> parse_segments(const json& list, const std::string& what) {
    std::vector<problem::Segment> segments;
    for (const json& item : list) {
        ObjectReader reader(item, what + ": segment " + std::to_string(segments.size()));
        segments.push_back(
            {reader.integer("begin"), reader.integer("end"), to_int(reader.integer("owner")), false});
        reader.finish();
    }
    return segments;
}

/// A limit that leaves room for counting on.
constexpr Index most_steps = Index{1} << 60;

problem::Sample parse_sample(const json& list, const std::string& what) {
    problem::Sample sample;
    for (const json& item : list) {
        if (!item.is_number_unsigned())
            throw Error(what + ": sample: entry " + std::to_string(sample.size()) +
                        " is not the number of a segment");
        sample.push_back(item.get<std::size_t>());
    }
    return sample;
}

problem::Groups parse_group_sizes(const json& list, const std::string& what) {
    problem::Groups groups;
    for (const json& item : list) {
        if (!item.is_number_unsigned() || item.get<std::uint64_t>() > std::uint64_t{problem::most_workers})
            throw Error(what + ": groups: entry " + std::to_string(groups.size()) +
                        " is not a number of ranks");
        groups.push_back(item.get<int>());
    }
    return groups;
}

/// A number for all parameter groups, or a list with one for each.
void parse_weight_decays(ObjectReader& reader, problem::HyperParameters& settings,
                         const std::string& what) {
    if (!reader.required("weight_decay").is_array()) {
        settings.weight_decay = reader.number("weight_decay");
        return;
    }
    const json& list = reader.list("weight_decay");
    if (list.empty() || !std::ranges::all_of(list, [](const json& item) { return item.is_number(); }))
        throw Error(what +
                    ": weight_decay is a list, and not of numbers; give one for each parameter group");
    settings.weight_decay = list.front().get<double>();
    for (std::size_t group = 1; group < list.size(); ++group)
        settings.more_weight_decays.push_back(list[group].get<double>());
}

/// Reads the settings that old traces do not have.
void parse_later_settings(ObjectReader& reader, problem::HyperParameters& settings) {
    const problem::HyperParameters usual = problem::unsaid(settings);
    problem::visit_later_settings(
        [&]<class Value>(const std::string& key, Value problem::HyperParameters::*member, auto...) {
            const Value otherwise = usual.*member;
            if constexpr (std::floating_point<Value>)
                settings.*member = reader.number_or(key, otherwise);
            else if constexpr (std::is_same_v<Value, problem::NormVersion>) // written as a number
                settings.*member = problem::parse<Value>(
                    std::to_string(reader.integer_or(key, static_cast<Index>(otherwise))));
            else
                settings.*member = problem::parse<Value>(reader.text_or(key, std::string(name(otherwise))));
        });
}

Config parse(const json& object, const std::string& what) {
    ObjectReader reader(object, what);
    const auto algorithm = problem::parse<problem::Algorithm>(reader.text("algorithm"));
    const Index workers = reader.integer("workers");
    problem::check_workers(workers);
    const Index steps = reader.integer("steps");
    if (steps < 1)
        throw Error("steps is " + std::to_string(steps) + "; at least 1 is needed");
    problem::HyperParameters settings;
    settings.beta1 = reader.number("beta1");
    settings.beta2 = reader.number("beta2");
    settings.epsilon = reader.number("epsilon");
    parse_weight_decays(reader, settings, what);
    settings.clip_norm = reader.number("clip_norm");
    settings.bias_correction = problem::parse<problem::BiasCorrection>(reader.text("bias_correction"));
    settings.decay_order = problem::parse<problem::DecayOrder>(reader.text_or("decay_order", "first"));
    settings.k_rounding = problem::parse<problem::KRounding>(reader.text_or("k_rounding", "floor"));
    parse_later_settings(reader, settings);
    if (object.contains("groups"))
        settings.groups = parse_group_sizes(reader.list("groups"), what);
    problem::Layout layout = trace::parse_layout(reader.list("tensors"), what);
    auto segments = problem::checked_segments(layout, static_cast<int>(workers),
                                              parse_segments(reader.list("segments"), what));
    Extent extent;
    extent.begin = reader.integer_or("begin", 0);
    if (extent.begin < 0 || extent.begin > most_steps)
        throw Error("begin is " + std::to_string(extent.begin) +
                    "; it is the number of steps taken before the first, 0 or more");
    const bool sampled = object.contains("sample");
    if (sampled)
        extent.sample = parse_sample(reader.list("sample"), what);
    reader.finish();
    problem::Problem problem{algorithm, static_cast<int>(workers), std::move(layout), std::move(segments),
                             settings};
    problem::check(problem);
    problem::check_param_groups(problem.layout, problem.settings);
    if (sampled)
        problem::check(extent.sample, problem);
    return {std::move(problem), steps, std::move(extent)};
}

} // namespace

Config parse_config(const std::string& text, const std::string& what) {
    return trace::parse_config(text, what, [&](const json& object) { return parse(object, what); });
}

std::string config_text(const problem::Problem& problem, Index steps, const Extent& extent) {
    const problem::HyperParameters& settings = problem.settings;
    ordered_json config;
    config["algorithm"] = name(problem.algorithm);
    config["workers"] = problem.workers;
    config["steps"] = steps;
    config["beta1"] = settings.beta1;
    config["beta2"] = settings.beta2;
    config["epsilon"] = settings.epsilon;
    config["weight_decay"] = settings.weight_decay;
    if (!settings.more_weight_decays.empty()) {
        config["weight_decay"] = settings.more_weight_decays;
        config["weight_decay"].insert(config["weight_decay"].begin(), settings.weight_decay);
    }
    config["bias_correction"] = name(settings.bias_correction);
    config["decay_order"] = name(settings.decay_order);
    config["clip_norm"] = settings.clip_norm;
    config["k_rounding"] = name(settings.k_rounding);
    // Only if they differ from the old behaviour: traces from before there was a choice keep their
    // bytes.
    problem::visit_said(settings, [&config]<class Value>(const std::string& key, const Value& value) {
        if constexpr (std::floating_point<Value>)
            config[key] = value;
        else if constexpr (std::is_same_v<Value, problem::NormVersion>)
            config[key] = static_cast<int>(value);
        else
            config[key] = name(value);
    });
    if (!settings.groups.empty())
        config["groups"] = settings.groups;
    if (extent.begin > 0)
        config["begin"] = extent.begin;
    if (!extent.sample.empty())
        config["sample"] = extent.sample;
    config["tensors"] = trace::layout_json(problem.layout);
    for (const problem::Segment& segment : problem.segments)
        config["segments"].push_back(
            ordered_json{{"begin", segment.begin}, {"end", segment.end}, {"owner", segment.owner}});
    return config.dump();
}

} // namespace truestep::verify::scape

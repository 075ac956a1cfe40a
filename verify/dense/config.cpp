// The metadata entry `config` of a trace of dense training: one JSON text (section 42).
#include <truestep/verify/dense/traces.hpp>

#include <utility>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::verify::dense {

namespace {

using nlohmann::json;
using trace::ObjectReader;

Index whole(const json& value, const std::string& what, Index most) {
    if (!value.is_number_integer() || value.get<double>() < 0.0 ||
        value.get<double>() > static_cast<double>(most))
        throw Error(what + " has " + one_line(value.dump()) + "; it must be a whole number from 0 to " +
                    std::to_string(most));
    return value.get<Index>();
}

std::string word(const json& value, const std::string& what) {
    if (!value.is_string())
        throw Error(what + " has " + one_line(value.dump()) + "; it must be a string");
    return value.get<std::string>();
}

Group parse_group(const json& object, const std::string& what) {
    ObjectReader reader(object, what);
    Group group = group_of(parse<Rule>(reader.text("rule")), {});
    for (const json& role : reader.list("roles"))
        group.roles.push_back(word(role, what + ": roles"));
    visit_settings(group, [&](const std::string& key, auto& value, auto... parse) {
        reader.read(key, value, parse...);
    });
    reader.finish();
    return group;
}

Tensor parse_tensor(const json& object, const std::string& what) {
    ObjectReader reader(object, what);
    Tensor tensor;
    tensor.name = reader.text("name");
    constexpr Index most = Index{1} << 40;
    for (const json& extent : reader.list("shape"))
        tensor.shape.push_back(whole(extent, what + ": shape", most));
    // Without a role it is for the problem to say what is missing.
    tensor.role = reader.text_or("role", "");
    reader.finish();
    return tensor;
}

Config config_of_json(const json& object, const std::string& what) {
    ObjectReader reader(object, what);
    if (const std::string algorithm = reader.text("algorithm"); algorithm != "dense")
        throw Error("algorithm is '" + one_line(algorithm) + "'; this is read as dense");
    Config config;
    Problem& problem = config.problem;
    const Index ranks = reader.integer("workers");
    problem::check_workers(ranks);
    problem.ranks = static_cast<int>(ranks);
    config.steps = reader.integer("steps");
    if (config.steps < 1)
        throw Error("steps is " + std::to_string(config.steps) + "; at least 1 is needed");
    config.begin = reader.integer_or("begin", 0);
    if (config.begin < 0)
        throw Error("begin is " + std::to_string(config.begin) + "; it must not be negative");
    problem.micro_batches.clear();
    for (const json& count : reader.list("micro_batches"))
        problem.micro_batches.push_back(
            static_cast<int>(whole(count, what + ": micro_batches", most_micro_batches)));
    reader.read("order", problem.order, problem::dense::parse<Order>);
    reader.read("accumulation", problem.accumulation, problem::dense::parse<Accumulation>);
    reader.read("clip_norm", problem.clip_norm);
    reader.read("copies", problem.copies, problem::dense::parse<Copies>);
    for (const json& group : reader.list("groups"))
        problem.groups.push_back(
            parse_group(group, what + ": group " + std::to_string(problem.groups.size())));
    for (const json& tensor : reader.list("tensors"))
        problem.tensors.push_back(
            parse_tensor(tensor, what + ": tensor " + std::to_string(problem.tensors.size())));
    reader.finish();
    check(problem);
    return config;
}

} // namespace

Config parse_config(const std::string& text, const std::string& what) {
    return trace::parse_config(text, what,
                               [&](const json& object) { return config_of_json(object, what); });
}

std::string config_text(const Config& config) {
    using Json = nlohmann::ordered_json;
    const Problem& problem = config.problem;
    Json json;
    json["algorithm"] = "dense";
    json["workers"] = problem.ranks;
    json["steps"] = config.steps;
    if (config.begin != 0)
        json["begin"] = config.begin;
    json["micro_batches"] = problem.micro_batches;
    trace::write_setting(json, "order", problem.order);
    trace::write_setting(json, "accumulation", problem.accumulation);
    trace::write_setting(json, "clip_norm", problem.clip_norm);
    trace::write_setting(json, "copies", problem.copies);
    for (const Group& group : problem.groups) {
        Json of_group{{"rule", name(group.rule)}, {"roles", group.roles}};
        visit_settings(group, [&](const std::string& key, const auto& value, auto...) {
            trace::write_setting(of_group, key, value);
        });
        json["groups"].push_back(std::move(of_group));
    }
    for (const Tensor& tensor : problem.tensors)
        json["tensors"].push_back(
            Json{{"name", tensor.name}, {"shape", tensor.shape}, {"role", tensor.role}});
    return json.dump();
}

} // namespace truestep::verify::dense

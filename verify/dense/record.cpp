// Records synthetic runs of the reference of dense training as traces.
#include <truestep/verify/dense/traces.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/reference/dense/reference.hpp>
#include <truestep/trace/config.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/synthetic_run.hpp>

namespace truestep::verify::dense {

namespace {

using reference::dense::Gradients;
using reference::dense::Reference;
using reference::dense::Step;
using verify::Injection;
using verify::Setting;
using ValueCount = Setting::ValueCount;

std::vector<Setting> settings() {
    return {
        {"workers", "3", "number of ranks"},
        {"steps", "6", "number of steps"},
        {"tensors", "wq:8x5:matrix,norm:5:vector,wo:5x12:matrix",
         "name:extents:role, with commas between tensors and an x between extents"},
        {"group", "",
         "rule:roles:key=value..., such as muon:matrix+head:momentum=0.9; rules are sgd, adam, adamw, "
         "muon. "
         "Without any: adamw for all roles",
         ValueCount::many},
        {"micro-batches", "1",
         "gradients that each rank makes in a step: one number, or one for each rank"},
        {"order", "rank", "in which they are added: rank or tree"},
        {"accumulation", "mean",
         "mean, or sum where each gradient is divided by its rank's number already"},
        {"clip-norm", "0", "of the global norm; 0: no clipping"},
        {"copies", "none", "none, or bf16: what the model computes with"},
        {"learning-rate", "0.01", "one for all groups, or one for each with commas between"},
        {"final-learning-rate", "-1", "of the last step, on a straight line; below 0: as the first"},
        {"seed", "1", "of the gradients and the initial parameters"},
        {"data", "normal", "class of the gradients: " + problem::data_class_names()},
        {"inject", "", "step:rank:coordinate:value put into the rank's last gradient of that step",
         ValueCount::many},
    };
}

template <class Number>
std::vector<Number> numbers(const verify::Settings& given, const std::string& option, std::size_t count,
                            const char* of) {
    auto all = parse_numbers<Number>(given.text(option));
    if (all && all->size() == 1)
        all->resize(count, all->front());
    const auto is_finite = [](Number number) { return std::isfinite(static_cast<double>(number)); };
    if (!all || all->size() != count || !std::ranges::all_of(*all, is_finite))
        throw Error("--" + option + " is '" + given.text(option) + "'; give a number, or one for each of " +
                    std::to_string(count) + " " + of + " with commas between");
    return *std::move(all);
}

std::vector<Tensor> tensors_of(const std::string& text) {
    std::vector<Tensor> all;
    for (const std::string& part : verify::split(text, ',')) {
        const auto fields = verify::split(part, ':');
        if (fields.size() != 3)
            throw Error("--tensors has '" + part + "'; write name:extents:role, as in wq:8x5:matrix");
        Tensor tensor{fields[0], {}, fields[2]};
        if (!fields[1].empty())
            for (const std::string& extent : verify::split(fields[1], 'x')) {
                const auto number = parse_number<Index>(extent);
                if (!number || *number < 0)
                    throw Error("--tensors has '" + part + "'; extents are whole numbers, as in 8x5");
                tensor.shape.push_back(*number);
            }
        all.push_back(std::move(tensor));
    }
    return all;
}

Group parse_group(const std::string& text) {
    const auto fields = verify::split(text, ':');
    if (fields.size() < 2)
        throw Error("--group has '" + text +
                    "'; write rule:roles:key=value, as in muon:matrix:momentum=0.9");
    Group group = group_of(parse<Rule>(fields[0]), verify::split(fields[1], '+'));
    auto given = nlohmann::json::object();
    for (const std::string& field : std::span(fields).subspan(2)) {
        const std::size_t equals = field.find('=');
        if (equals == std::string::npos)
            throw Error("--group has '" + field + "'; write a setting as key=value");
        const std::string word = field.substr(equals + 1);
        const auto value = nlohmann::json::parse(word, nullptr, false);
        given[field.substr(0, equals)] = value.is_discarded() ? nlohmann::json(word) : value;
    }
    trace::ObjectReader reader(given, "--group " + fields[0]);
    visit_settings(group, [&](const std::string& key, auto& value, const auto&... parse) {
        if (given.contains(key))
            reader.read(key, value, parse...);
    });
    reader.finish();
    return group;
}

Config config_of(const verify::SyntheticRun& run) {
    const verify::Settings& given = run.settings;
    Config config;
    Problem& problem = config.problem;
    const Index ranks = given.integer("workers");
    problem::check_workers(ranks);
    problem.ranks = static_cast<int>(ranks);
    config.steps = given.integer("steps");
    if (config.steps < 1)
        throw Error("--steps is " + std::to_string(config.steps) + "; at least 1 is needed");
    problem.tensors = tensors_of(given.text("tensors"));
    for (const std::string& group : given.texts("group"))
        problem.groups.push_back(parse_group(group));
    if (problem.groups.empty()) {
        problem.groups.push_back(group_of(Rule::adamw, {}));
        for (const Tensor& tensor : problem.tensors)
            if (std::vector<std::string>& roles = problem.groups.front().roles;
                std::ranges::find(roles, tensor.role) == roles.end())
                roles.push_back(tensor.role);
    }
    problem.micro_batches = numbers<int>(given, "micro-batches", static_cast<std::size_t>(ranks), "ranks");
    given.read("order", problem.order, parse<Order>);
    given.read("accumulation", problem.accumulation, parse<Accumulation>);
    given.read("clip_norm", problem.clip_norm);
    given.read("copies", problem.copies, parse<Copies>);
    check(problem);
    verify::check_room(run.output, static_cast<int>(micro_batches_of(problem)), layout_of(problem).size(),
                       config.steps);
    return config;
}

/// Step after step, in each group after group.
std::vector<double> learning_rates_of(const Config& config, const verify::Settings& given) {
    const std::size_t groups = config.problem.groups.size();
    const auto first = numbers<double>(given, "learning-rate", groups, "groups");
    const auto last = numbers<double>(given, "final-learning-rate", groups, "groups");
    std::vector<double> all;
    for (Index step = 1; step <= config.steps; ++step)
        for (std::size_t i = 0; i < groups; ++i)
            all.push_back(verify::rate_between(first[i], last[i], step, config.steps));
    return all;
}

using Floats = reference::Vector<float>;

std::span<const float> span_of(const Floats& values) {
    return {values.data(), static_cast<std::size_t>(values.size())};
}

/// A gradient follows from its global index, so that the same batch may be split over other ranks.
Gradients<float> gradients_of(const Config& config, Index size, const verify::Settings& given,
                              const std::vector<Injection>& injections, Index step) {
    const auto data = problem::parse_data_class(given.text("data"));
    Gradients<float> all;
    int global = 0;
    for (int rank = 0; rank < config.problem.ranks; ++rank) {
        all.emplace_back();
        for (int micro = 0; micro < config.problem.micro_batches[static_cast<std::size_t>(rank)]; ++micro)
            all.back().push_back(verify::to_vector<float>(
                problem::gradient(data, given.seed("seed"), global++, step, size)));
        for (const Injection& injection : injections)
            if (injection.step == step && injection.rank == rank)
                all.back().back()[injection.index] = injection.value;
    }
    return all;
}

/// A skipped step shows the state as it was, and +0 between the phases.
Step<float> step_or_skip(Reference<float>& reference, const Gradients<float>& gradients,
                         const std::vector<double>& rates) {
    try {
        return reference.step(gradients, rates);
    } catch (const reference::scape::RefusedStep&) {
        const Floats none = Floats::Zero(reference.layout().size());
        return {none, none, none};
    }
}

} // namespace

void record(const verify::SyntheticRun& run) {
    const verify::Settings& given = run.settings;
    const Config config = config_of(run);
    const trace::Schema described = schema(config);
    const Index size = described.layout.size();
    const auto injections = verify::injections_of(given, config.steps, config.problem.ranks, size);
    const auto data = problem::parse_data_class(given.text("data"));
    Head head{config, learning_rates_of(config, given), {}, {}, {}};
    const auto start =
        verify::to_vector<float>(problem::initial_parameters(data, given.seed("seed"), size));
    Reference<float> reference(config.problem, start);
    trace::Writer writer(run.output, described, run.source, run.intermediates, run.replicas);
    writer.series("initial/parameters", span_of(start));
    writer.series("learning_rate", std::span<const double>(head.learning_rates));
    for (Index step = 1; step <= config.steps; ++step) {
        run.progress(step, config.steps);
        writer.begin_step();
        const auto gradients = gradients_of(config, size, given, injections, step);
        for (const trace::Kind& kind : described.inputs)
            for (int rank = 0; rank < config.problem.ranks; ++rank)
                if (described.has_input(kind, step, rank))
                    writer.input(kind, rank,
                                 span_of(gradients[static_cast<std::size_t>(rank)]
                                                  [static_cast<std::size_t>(kind.part - 1)]));
        try {
            const Step<float> made = step_or_skip(reference, gradients, head.rates_of(step));
            const Floats copies = reference::dense::copies_of(reference.state.w);
            // In the order of the results' names.
            const std::array<const Floats*, result_count> values{
                &made.M, &made.ghat, &reference.state.m, &reference.state.v, &made.O, &reference.state.w,
                &copies};
            for (const Result which : results_of(config.problem))
                writer.result(result(which).kind,
                              [&](int) { return span_of(*values[static_cast<std::size_t>(which)]); });
        } catch (const reference::scape::Halted& halted) {
            throw Error(run.output.string() + ": not written: " + halted.what() +
                        " (choose other settings)");
        }
    }
    writer.finish();
}

verify::Traces traces() {
    return {{"dense"}, schema_of_config, verify_trace, settings(), record, other_rule};
}

} // namespace truestep::verify::dense

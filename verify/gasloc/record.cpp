// Records synthetic runs of the reference as traces.
#include <truestep/verify/gasloc/traces.hpp>

#include <span>
#include <utility>

#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/synthetic_run.hpp>

#include "rounds.hpp"

namespace truestep::verify::gasloc {

namespace {

using verify::Injection;
using verify::Setting;
using ValueCount = Setting::ValueCount;

std::vector<Setting> settings() {
    const Settings usual;
    return {
        {"workers", "4", "number of workers"},
        {"steps", "6", "number of rounds"},
        {"tensors", "embed:40,norm:5,mlp:55", "name:size, with commas between"},
        {"inner", std::string(name(usual.inner)), "sgd, adams or adamw"},
        {"inner-steps", "2",
         "inner steps of a round; several with commas: worker after worker, round after round"},
        {"law", std::string(name(usual.law)),
         "pairs, two_peers, ring, exponential, hypercube, complete, none or explicit"},
        {"edge", "", "round:a:b:weight of the law explicit, such as 1:0:2:0.5", ValueCount::many},
        {"momentum", std::string(name(usual.momentum)), "local or gossiped"},
        {"eta", shortest(usual.eta), "outer learning rate"},
        {"alpha", shortest(usual.alpha), "strength of the gossip"},
        {"gamma", shortest(usual.gamma), "momentum, in [0, 1)"},
        {"allow-unstable", "no", "yes: also what diverges"},
        {"learning-rate", "0.01", "of the first inner step"},
        {"final-learning-rate", "-1", "of the last round, on a straight line; below 0: as the first"},
        {"beta1", shortest(usual.hyper.beta1), "decay of the first moment, in [0, 1)"},
        {"beta2", shortest(usual.hyper.beta2), "of the second moment, in [0, 1)"},
        {"epsilon", shortest(usual.hyper.epsilon), "added to the denominator"},
        {"weight-decay", shortest(usual.hyper.weight_decay), "decoupled decay"},
        {"bias-correction", "adam", "of adams: none, adam or momentum"},
        {"seed", "1", "of the graphs, the gradients and the initial parameters"},
        {"data", "normal", "class of the gradients: " + problem::data_class_names()},
        {"inject", "", "round:worker:coordinate:value put into the last gradient of that round",
         ValueCount::many},
    };
}

/// Parses "2,1,0", the inner steps over workers and rounds.
std::vector<std::vector<Index>> inner_steps_of(const std::string& text, int workers, Index rounds) {
    std::vector<Index> list;
    for (const std::string& part : verify::split(text, ',')) {
        const auto value = parse_number<Index>(part);
        if (!value || *value < 0 || *value > 10'000)
            throw Error("--inner-steps has '" + part +
                        "'; write whole numbers from 0 to 10000, with commas between");
        list.push_back(*value);
    }
    std::vector<std::vector<Index>> all(static_cast<std::size_t>(rounds));
    std::size_t at = 0;
    for (std::vector<Index>& of_round : all)
        for (int worker = 0; worker < workers; ++worker)
            of_round.push_back(list[at++ % list.size()]);
    return all;
}

double number(const std::string& text, const std::string& whole) {
    const auto value = parse_number<double>(text);
    if (!value)
        throw Error("--edge has '" + whole + "'; write round:a:b:weight, as in 1:0:2:0.5");
    return *value;
}

std::vector<Graph> given_graphs(const verify::Settings& given, int workers, Index rounds) {
    std::vector<Graph> graphs(static_cast<std::size_t>(rounds));
    for (const std::string& text : given.texts("edge")) {
        const auto fields = verify::split(text, ':');
        if (fields.size() != 4)
            throw Error("--edge has '" + text + "'; write round:a:b:weight, as in 1:0:2:0.5");
        const double round = number(fields[0], text);
        if (!(round >= 1.0 && round <= static_cast<double>(rounds)))
            throw Error("--edge has '" + text + "'; there are rounds 1 to " + std::to_string(rounds));
        graphs[static_cast<std::size_t>(round) - 1].push_back({static_cast<int>(number(fields[1], text)),
                                                               static_cast<int>(number(fields[2], text)),
                                                               number(fields[3], text)});
    }
    for (std::size_t i = 0; i < graphs.size(); ++i)
        graphs[i] = checked(graphs[i], workers, "--edge of round " + std::to_string(i + 1));
    return graphs;
}

Config config_of(const verify::SyntheticRun& run) {
    const verify::Settings& given = run.settings;
    const Index workers = given.integer("workers");
    problem::check_workers(workers);
    const Index rounds = given.integer("steps");
    if (rounds < 1)
        throw Error("--steps is " + std::to_string(rounds) + "; at least 1 is needed");
    problem::Layout layout(verify::parse_tensors(given.text("tensors")));
    verify::check_room(run.output, static_cast<int>(workers), layout.size(), rounds);
    Settings settings;
    visit_settings(settings, [&](const std::string& key, auto& value, auto... parse) {
        given.read(key, value, parse...);
    });
    check(settings);
    check_law(settings.law, static_cast<int>(workers));
    if (settings.law == Law::given)
        settings.given = given_graphs(given, static_cast<int>(workers), rounds);
    else if (given.given("edge"))
        throw Error("--edge is for --law explicit; this is " + std::string(name(settings.law)));
    check_stable(settings, static_cast<int>(workers), settings.given);
    Config config{settings, static_cast<int>(workers), std::move(layout), 0,
                  inner_steps_of(given.text("inner-steps"), static_cast<int>(workers), rounds)};
    for (Index round = 1; round <= rounds; ++round)
        config.edges += static_cast<Index>(graph_of(settings, round, config.workers).size());
    return config;
}

std::vector<double> learning_rates_of(const Config& config, const verify::Settings& given) {
    std::vector<double> all;
    for (Index round = 1; round <= config.rounds(); ++round)
        all.insert(all.end(), static_cast<std::size_t>(config.most_steps(round)),
                   verify::rate_between(given.number("learning-rate"), given.number("final-learning-rate"),
                                        round, config.rounds()));
    return all;
}

std::vector<Injection> injections_of(const Config& config, const verify::Settings& given) {
    auto all = verify::injections_of(given, config.rounds(), config.workers, config.layout.size(), words);
    for (const Injection& one : all)
        if (config.steps(one.rank, one.step) == 0)
            throw Error("--inject has '" + one.text + "'; that worker has no inner step in that round");
    return all;
}

std::span<const float> span_of(const Vector<float>& values) {
    return {values.data(), static_cast<std::size_t>(values.size())};
}

/// Draws the gradient of an inner step; each step has another one.
Vector<float> gradient_of(const Config& config, const verify::Settings& given,
                          const std::vector<Injection>& injections, int worker, Index round, Index h) {
    const auto data = problem::parse_data_class(given.text("data"));
    Vector<float> gradient = verify::to_vector<float>(problem::gradient(
        data, given.seed("seed"), worker, (round - 1) * 10'000 + h, config.layout.size()));
    for (const Injection& injection : injections)
        if (injection.step == round && injection.rank == worker && h == config.steps(worker, round))
            gradient[injection.index] = injection.value;
    return gradient;
}

} // namespace

void record(const verify::SyntheticRun& run) {
    const verify::Settings& given = run.settings;
    const Config config = config_of(run);
    const auto injections = injections_of(config, given);
    const std::vector<double> rates = learning_rates_of(config, given);
    const std::vector<double> edges = edges_series(config);
    const auto data = problem::parse_data_class(given.text("data"));
    const std::vector<float> start =
        problem::initial_parameters(data, given.seed("seed"), config.layout.size());
    const Head head{config, rates, start, {}};
    Rounds<float> rounds(head);
    trace::Writer writer(run.output, schema(config), run.source, run.intermediates, run.replicas);
    writer.series("initial/parameters", std::span<const float>(start));
    writer.series("learning_rate", std::span<const double>(rates));
    writer.series("edges", std::span<const double>(edges));
    for (Index round = 1; round <= config.rounds(); ++round) {
        run.progress(round, config.rounds());
        writer.begin_step();
        std::vector<Gradients<float>> gradients(static_cast<std::size_t>(config.workers));
        // In the schema's order: step by step, and all workers of each step.
        for (Index h = 1; h <= config.most_steps(); ++h)
            for (int worker = 0; worker < config.workers; ++worker)
                if (h <= config.steps(worker, round)) {
                    Gradients<float>& of_worker = gradients[static_cast<std::size_t>(worker)];
                    of_worker.push_back(gradient_of(config, given, injections, worker, round, h));
                    writer.input(gradient_kind(h), worker, span_of(of_worker.back()));
                }
        rounds.take(gradients);
        for (const Result which : results_of(config.settings.inner))
            writer.result(result(which).kind,
                          [&](int worker) { return span_of(rounds.value(which, worker)); });
        for (int worker = 0; worker < config.workers; ++worker)
            if (rounds.reference.halted(worker))
                throw Error(run.output.string() + ": not written: theta of worker " +
                            std::to_string(worker) + " is not finite after round " + std::to_string(round) +
                            " (choose other settings)");
    }
    writer.finish();
}

verify::Traces traces() {
    return {{"gasloc"}, schema_of_config, verify_trace, settings(), record, known_bug, words};
}

} // namespace truestep::verify::gasloc

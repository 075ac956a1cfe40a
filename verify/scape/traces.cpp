// The traces of SCAPE and AdamS for callers that know no system.
#include <truestep/verify/scape/traces.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

namespace truestep::verify::scape {

namespace {

using ValueCount = Setting::ValueCount;

std::vector<Setting> settings() {
    std::vector<Setting> all{
        {"algorithm", "scape", "scape or adams"},
        {"workers", "3", "number of ranks"},
        {"steps", "8", "number of steps"},
        {"tensors", "embed:40,norm:5:dense,mlp:55", "name:size or name:size:dense, with commas between"},
        {"partition", "by_shard", "by_shard or by_tensor"},
        {"density", "0.1", "share of each segment that is synchronized, in the end"},
        {"density-schedule", "constant", "constant, geometric or linear"},
        {"density-start", "1", "density of the first mask, unless constant"},
        {"density-steps", "4", "steps from the first density to the last"},
        {"learning-rate", "0.01", "of the first step; of each parameter group with commas between"},
        {"final-learning-rate", "-1",
         "of the last step, on a straight line, likewise; below 0: as the first"},
        {"param-groups", "",
         "the parameter group of each tensor, such as 0,1,0; all are in one by default"},
        {"groups", "", "ranks of each group, with commas between, if the mean is made on two levels"},
        {"arithmetic", "fp32",
         "fp32, or bf16: gradients, state and every operation are rounded to it, as the plainest code "
         "in bf16 has it (verify --level bf16)"},
        {"seed", "1", "of the gradients and the initial parameters"},
        {"data", "normal", "class of the gradients: " + problem::data_class_names()},
        {"begin", "0", "steps that are taken before the first that is written"},
        {"sample", "",
         "the segments that are written, all steps being taken in full: a share such as 0.001 "
         "or 0.001:SEED, or tensors such as wq,norm or wq@5000 (the segment of index 5000)"},
        {"inject", "", "step:rank:coordinate:value put into the gradients, such as 2:0:17:nan",
         ValueCount::many},
    };
    std::string next = "param-groups"; // before which the next one stands
    const auto add = [&](std::string key, auto member, const std::string& help, const auto&...) {
        std::ranges::replace(key, '_', '-');
        if (!help.empty())
            all.insert(std::ranges::find(all, next, &Setting::option),
                       {key, problem::setting_text(problem::HyperParameters().*member), help});
    };
    problem::visit_first_settings([&](const std::string& key, const auto&... row) {
        add(key, row...);
        if (key == "weight_decay")
            next = "groups";
        else if (key == "clip_norm") {
            problem::visit_later_settings(add);
            next = "seed";
        }
    });
    return all;
}

problem::DensitySchedule density_of(const Settings& given) {
    const std::string schedule = given.text("density-schedule");
    const double last = given.number("density");
    const double first = given.number("density-start");
    const Index steps = given.integer("density-steps");
    if (schedule == "constant")
        return problem::DensitySchedule::constant(last);
    if (schedule == "geometric")
        return problem::DensitySchedule::geometric(first, last, steps);
    if (schedule == "linear")
        return problem::DensitySchedule::linear(first, last, steps);
    throw Error("--density-schedule is '" + schedule + "'; it must be constant, geometric or linear");
}

problem::HyperParameters hyper_of(const Settings& given) {
    problem::HyperParameters hyper;
    problem::visit_settings([&]<class Value>(const std::string& key,
                                             Value problem::HyperParameters::*member,
                                             const std::string& help, const auto&...) {
        if (key == "weight_decay")
            problem::parse_weight_decays(given.text("weight-decay"), hyper);
        else if constexpr (std::floating_point<Value>)
            given.read(key, hyper.*member);
        else if (!help.empty())
            given.read(key, hyper.*member, problem::parse<Value>);
    });
    hyper.groups = problem::parse_groups(given.text("groups"));
    return hyper;
}

Arithmetic arithmetic_of(const Settings& given) {
    const std::string text = given.text("arithmetic");
    if (text != "fp32" && text != "bf16")
        throw Error("--arithmetic is '" + text + "'; it must be fp32 or bf16");
    return text == "bf16" ? Arithmetic::bf16 : Arithmetic::fp32;
}

int workers_of(const Settings& given) {
    const Index workers = given.integer("workers");
    problem::check_workers(workers);
    return static_cast<int>(workers);
}

/// Parses numbers for the parameter groups.
std::vector<double> numbers_of(const Settings& given, const std::string& option) {
    const auto numbers = parse_numbers<double>(given.text(option));
    if (!numbers)
        throw Error("--" + option + " is '" + given.text(option) +
                    "'; give a number, or one for each parameter group with commas between");
    for (const double number : *numbers)
        if (!std::isfinite(number))
            throw Error("--" + option + " is " + shortest(number) + "; it must be finite");
    return *numbers;
}

/// The rates at the first step and at the last. One number is for all groups.
std::vector<std::pair<double, double>> learning_rates_of(const Settings& given, std::size_t groups) {
    auto first = numbers_of(given, "learning-rate");
    auto last = numbers_of(given, "final-learning-rate");
    std::vector<std::pair<double, double>> rates;
    for (std::vector<double>* some : {&first, &last}) {
        if (some->size() == 1)
            some->resize(groups, some->front());
        if (some->size() != groups)
            throw Error("--" + std::string(some == &first ? "learning-rate" : "final-learning-rate") +
                        " has " + std::to_string(some->size()) + " numbers, and the tensors are of " +
                        std::to_string(groups) + (groups == 1 ? " parameter group" : " parameter groups") +
                        "; give one for each, or one for all");
    }
    for (const double rate : first)
        if (rate < 0.0)
            throw Error("--learning-rate is " + shortest(rate) + "; it must be 0 or more");
    for (std::size_t group = 0; group < groups; ++group)
        rates.emplace_back(first[group], last[group] < 0.0 ? first[group] : last[group]);
    return rates;
}

void record_made_up(const SyntheticRun& run) {
    const Settings& given = run.settings;
    const problem::Problem problem = problem::make_problem(
        problem::parse<problem::Algorithm>(given.text("algorithm")), workers_of(given),
        problem::with_param_groups(problem::Layout(parse_tensors(given.text("tensors"))),
                                   given.text("param-groups")),
        problem::parse<problem::PartitionRule>(given.text("partition")), hyper_of(given));
    const auto rates = learning_rates_of(given, static_cast<std::size_t>(problem.layout.param_groups()));
    RecordOptions options{problem,
                          density_of(given),
                          given.integer("steps"),
                          rates.front().first,
                          rates.front().second,
                          given.seed("seed"),
                          problem::parse_data_class(given.text("data")),
                          {},
                          run.intermediates,
                          run.source,
                          run.progress,
                          run.replicas};
    options.more_learning_rates.assign(rates.begin() + 1, rates.end());
    options.sample = given.text("sample");
    options.begin = given.integer("begin");
    options.arithmetic = arithmetic_of(given);
    for (const std::string& injection : given.texts("inject"))
        options.injections.push_back(parse_injection(injection));
    record(run.output, options);
}

} // namespace

Traces scape_traces() {
    return {{"scape", "adams"}, schema_of_config, verify_trace, settings(), record_made_up, known_bug};
}

} // namespace truestep::verify::scape

#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <scape/gate/results.hpp>
#include <scape/gate/terminal.hpp>
#include <scape/problem/error.hpp>
#include <scape/report/environment.hpp>
#include <scape/report/folder.hpp>
#include <scape/verify/record.hpp>

namespace scape::tool {

namespace {

struct Settings {
    std::string output;
    std::string algorithm = "scape";
    int workers = 3;
    std::int64_t steps = 8;
    std::string tensors = "embed:40,norm:5:dense,mlp:55";
    std::string partition = "by_shard";
    std::string schedule = "constant";
    double density = 0.1;
    double density_start = 1.0;
    std::int64_t density_steps = 4;
    double learning_rate = 0.01;
    double final_learning_rate = -1.0;
    problem::HyperParameters hyper;
    std::string bias_correction = "adam";
    std::string k_rounding = "floor";
    std::uint64_t seed = 1;
    std::string data = "normal";
    std::vector<std::string> injections;
    bool phases = false;
    std::string replicas = "none";
};

problem::DensitySchedule make_density(const Settings& settings) {
    if (settings.schedule == "constant")
        return problem::DensitySchedule::constant(settings.density);
    if (settings.schedule == "geometric")
        return problem::DensitySchedule::geometric(settings.density_start, settings.density,
                                                   settings.density_steps);
    if (settings.schedule == "linear")
        return problem::DensitySchedule::linear(settings.density_start, settings.density,
                                                settings.density_steps);
    throw Error("--density-schedule is '" + settings.schedule +
                "'; it must be constant, geometric or linear");
}

/// The command that makes the same bytes again: all arguments but the place of the output.
std::string source(const std::vector<std::string>& arguments) {
    std::string text = "scape";
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        if (arguments[i] == "-o" || arguments[i] == "--output")
            ++i;
        else if (!arguments[i].starts_with("--output=") && !arguments[i].starts_with("-o"))
            text += " " + gate::shell_word(arguments[i]);
    }
    return text;
}

void run(const Settings& settings, const std::vector<std::string>& arguments) {
    problem::HyperParameters hyper = settings.hyper;
    hyper.bias_correction = problem::parse<problem::BiasCorrection>(settings.bias_correction);
    hyper.k_rounding = problem::parse<problem::KRounding>(settings.k_rounding);
    verify::RecordOptions options{
        problem::make_problem(problem::parse<problem::Algorithm>(settings.algorithm), settings.workers,
                              problem::Layout(verify::parse_tensors(settings.tensors)),
                              problem::parse<problem::PartitionRule>(settings.partition), hyper),
        make_density(settings),
        settings.steps,
        settings.learning_rate,
        settings.final_learning_rate < 0.0 ? settings.learning_rate : settings.final_learning_rate,
        settings.seed,
        problem::parse_data_class(settings.data),
        {},
        settings.phases,
        source(arguments)};
    for (const std::string& injection : settings.injections)
        options.injections.push_back(verify::parse_injection(injection));
    options.replicas = verify::parse_replicas(settings.replicas);
    gate::Progress progress(settings.output);
    options.progress = [&](verify::Index step, verify::Index steps) { progress.show(step, steps); };
    record(settings.output, options);
    std::printf("%s\n", settings.output.c_str());
}

} // namespace

void add_record(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command =
        app.add_subcommand("record", "run the reference on made-up gradients and write a trace");
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("-o,--output", settings->output, "the trace to write")->required();
    command->add_option("--algorithm", settings->algorithm, "scape or adams");
    command->add_option("--workers", settings->workers, "number of ranks");
    command->add_option("--steps", settings->steps, "number of steps");
    command->add_option("--tensors", settings->tensors,
                        "name:size or name:size:dense, with commas between");
    command->add_option("--partition", settings->partition, "by_shard or by_tensor");
    command->add_option("--density", settings->density,
                        "share of each segment that is synchronized, in the end");
    command->add_option("--density-schedule", settings->schedule, "constant, geometric or linear");
    command->add_option("--density-start", settings->density_start,
                        "density of the first mask, unless constant");
    command->add_option("--density-steps", settings->density_steps,
                        "steps from the first density to the last");
    command->add_option("--learning-rate", settings->learning_rate, "of the first step");
    command->add_option("--final-learning-rate", settings->final_learning_rate,
                        "of the last step, on a straight line; below 0: as the first");
    command->add_option("--beta1", settings->hyper.beta1, "decay of the first moment, in [0, 1)");
    command->add_option("--beta2", settings->hyper.beta2,
                        "weight of the moment in the denominator, in [0, 1)");
    command->add_option("--epsilon", settings->hyper.epsilon, "added to the denominator");
    command->add_option("--weight-decay", settings->hyper.weight_decay, "decoupled decay");
    command->add_option("--clip-norm", settings->hyper.clip_norm,
                        "largest norm of the gradient; 0: no clipping");
    command->add_option("--bias-correction", settings->bias_correction, "none, adam or momentum");
    command->add_option("--k-rounding", settings->k_rounding, "floor, or ceil as an older artifact had it");
    command->add_option("--seed", settings->seed, "of the gradients and the initial parameters");
    command->add_option("--data", settings->data, "class of the gradients: " + problem::data_class_names());
    command->add_option("--inject", settings->injections,
                        "step:rank:coordinate:value put into the gradients, such as 2:0:17:nan");
    command->add_flag(
        "--phases", settings->phases,
        "also record what is between: local vectors, the exchanged mean, the reconstructed gradient");
    command->add_option("--replicas", settings->replicas,
                        "of what has to be the same on all ranks: none (recorded once), copies (each "
                        "rank's own) or fingerprints (once, and a number a rank)");
    command->footer(
        "Exit status: 0 written, 2 bad input or usage.\n"
        "Examples:\n"
        "  scape record -o run.safetensors --workers 5 --density 0.01 --tensors wq:3000,norm:64:dense\n"
        "  scape record -o clip.safetensors --clip-norm 0.5 --phases\n"
        "  scape record -o refused.safetensors --steps 4 --inject 2:1:17:nan");
    command->callback([settings, &status, &arguments] {
        run(*settings, arguments);
        status = all_passed;
    });
}

} // namespace scape::tool

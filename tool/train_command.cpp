#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include <scape/gate/terminal.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/training/run.hpp>

namespace scape::tool {

namespace {

using training::Curve;
using training::Plan;
using training::Text;
using Clock = std::chrono::steady_clock;

struct Asked {
    std::string text;
    std::vector<std::string> optimizers{"adams", "scape:0.1"};
    Plan plan;
    std::optional<std::size_t> warm_up;
    std::string correction{problem::name(Plan().hyper.bias_correction)};
    std::size_t seeds = 1;
    std::uint64_t first_seed = 1;
    std::string json;
};

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// "step 120 of 1000, loss 2.310, about 40 s left".
std::string progress_text(std::size_t step, std::size_t steps, double loss, double seconds) {
    char text[96];
    std::snprintf(text, sizeof text, "step %zu of %zu, loss %.3f, about %.0f s left", step, steps, loss,
                  seconds / static_cast<double>(step) * static_cast<double>(steps - step));
    return text;
}

Curve train_one(const Asked& asked, const Text& text, const std::string& optimizer, std::uint64_t seed) {
    gate::Progress progress(optimizer + ", seed " + std::to_string(seed));
    const auto begin = Clock::now();
    double smooth = 0; // of one batch the loss jumps about
    return training::train(text, asked.plan, optimizer, seed, [&](std::size_t step, double loss) {
        smooth = step == 1 ? loss : 0.95 * smooth + 0.05 * loss;
        progress.show(progress_text(step, asked.plan.steps, smooth, seconds_since(begin)));
    });
}

void print_head(const Asked& asked, const Text& text, double parameters) {
    const Plan& plan = asked.plan;
    std::printf("text   %s: %zu symbols, %zu to learn from, %zu measured; who guesses has a loss of %.3f\n",
                one_line(text.name).c_str(), text.symbols, text.learned.size(), text.measured.size(),
                std::log(static_cast<double>(text.symbols)));
    std::printf("model  %.0f parameters: %zu layers of width %zu, %zu heads, windows of %zu\n", parameters,
                plan.shape.layers, plan.shape.width, plan.shape.heads, plan.shape.context);
    std::printf("runs   %zu steps, %d ranks, %zu windows a rank and step, learning rate %g; losses in nats "
                "a symbol\n",
                plan.steps, plan.ranks, plan.batch, plan.learning_rate);
    std::printf("%-18s %6s %9s %9s %8s %17s %9s\n", "optimizer", "seed", "loss", "least", "at step",
                "bytes/param/step", "seconds");
}

/// Bytes are a rank's.
void print_row(const Curve& curve, const Plan& plan, double parameters, double seconds) {
    const Curve::Point& last = curve.points.back();
    const Curve::Point& least = *std::ranges::min_element(curve.points, {}, &Curve::Point::loss);
    std::printf("%-18s %6llu %9.4f %9.4f %8zu %17.4f %9.1f\n", curve.optimizer.c_str(),
                static_cast<unsigned long long>(curve.seed), last.loss, least.loss, least.step,
                static_cast<double>(last.bytes) / plan.ranks / static_cast<double>(plan.steps) / parameters,
                seconds);
    std::fflush(stdout);
}

void run(Asked asked) {
    const Text text = training::read_bytes(asked.text);
    asked.plan.shape.symbols = text.symbols;
    asked.plan.warm_up = asked.warm_up.value_or(asked.plan.steps / 10);
    asked.plan.hyper.bias_correction = problem::parse<problem::BiasCorrection>(asked.correction);
    training::check(asked.plan, text, asked.optimizers);
    const auto parameters = static_cast<double>(training::layout_of(asked.plan.shape).size());
    std::vector<Curve> curves;
    if (!asked.json.empty()) // who cannot have it, is told before the hours
        training::write_curves(asked.json, text, asked.plan, curves);
    print_head(asked, text, parameters);
    for (std::uint64_t seed = asked.first_seed; seed < asked.first_seed + asked.seeds; ++seed)
        for (const std::string& optimizer : asked.optimizers) {
            const auto begin = Clock::now();
            curves.push_back(train_one(asked, text, optimizer, seed));
            print_row(curves.back(), asked.plan, parameters, seconds_since(begin));
            if (!asked.json.empty())
                training::write_curves(asked.json, text, asked.plan, curves);
        }
}

void add_runs(CLI::App& command, Asked& asked) {
    command
        .add_option("--text", asked.text,
                    "a file; its bytes are the symbols, and its last tenth is measured")
        ->required();
    command.add_option(
        "--optimizer", asked.optimizers,
        "NAME, NAME:DENSITY or NAME:H, as often as wanted: adams (sharded, dense), adamw, "
        "dense-bf16, dense-bf16-all, topk-indices, ok-topk, scape, unsharded, diloco, gasloc");
    command.add_option("-P,--ranks", asked.plan.ranks, "that share the training, as threads");
    command.add_option("--steps", asked.plan.steps, "of each run");
    command.add_option("--batch", asked.plan.batch, "windows a rank and step");
    command
        .add_option("--seeds", asked.seeds,
                    "runs of each optimizer; those of one seed have the same start and the same batches")
        ->check(CLI::Range(1, 10'000));
    command.add_option("--first-seed", asked.first_seed, "the others follow it");
    command.add_option("--measure-every", asked.plan.measure_every,
                       "steps, and at the end; of diloco and gasloc where the next round ends");
    command.add_option("--measured-windows", asked.plan.measured_windows,
                       "the same ones for all, spread over the measured text");
    command.add_option("--checkpoints", asked.plan.checkpoints,
                       "a folder, for a file a run: the same command goes on from there, to the same bits");
    command.add_option("--checkpoint-every", asked.plan.checkpoint_every, "steps, and at the end");
    command.add_option("--json", asked.json, "write the curves to this file, after each run");
}

void add_settings(CLI::App& command, Asked& asked) {
    Plan& plan = asked.plan;
    command.add_option("--learning-rate", plan.learning_rate,
                       "at its peak; falls along half a cosine to a tenth");
    command.add_option("--warm-up", asked.warm_up, "steps to the peak; a tenth of all, where not given");
    command.add_option("--bias-correction", asked.correction,
                       "of AdamS, also inside of scape, diloco and gasloc: none, adam or momentum");
    command.add_option("--weight-decay", plan.hyper.weight_decay, "of all parameters");
    command.add_option("--beta1", plan.hyper.beta1, "of the first moment");
    command.add_option("--beta2", plan.hyper.beta2, "of the denominator");
    command.add_option("--density-warm-up", plan.density_warm_up,
                       "steps over which scape's density falls from 1");
    command.add_option("--context", plan.shape.context, "symbols of a window");
    command.add_option("--width", plan.shape.width, "of the model, a multiple of its heads");
    command.add_option("--layers", plan.shape.layers, "of the model");
    command.add_option("--heads", plan.shape.heads, "of the model");
}

} // namespace

void add_train(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "train", "train a small GPT with any optimizer and print its loss on text it has not seen");
    auto asked = std::make_shared<Asked>();
    command->option_defaults()->always_capture_default();
    add_runs(*command, *asked);
    add_settings(*command, *asked);
    command->footer("Exit status: 0 trained, 2 bad input or usage, or a loss that is no number any more.\n"
                    "Examples:\n"
                    "  scape train --text README.md --steps 200\n"
                    "  scape train --text book.txt --optimizer adamw adams scape:0.1 scape:0.01 diloco:30 "
                    "--seeds 3 --json curves.json");
    command->callback([asked, &status] {
        run(*asked);
        status = all_passed;
    });
}

} // namespace scape::tool

// Declares the command-line options of `truestep train`, with their help.
#include "train_call.hpp"

#include <truestep/problem/timeline.hpp>

#include "benchmark_out.hpp"

namespace truestep::training {

namespace {

void add_runs(CLI::App& command, TrainCall& asked) {
    command
        .add_option("--text", asked.text,
                    "a file, whose bytes are the symbols and whose last tenth is measured; or "
                    "synthetic[:SEED[,SETTING=NUMBER]...], a synthetic text whose entropy is known")
        ->required();
    command.add_option(
        "--optimizer", asked.optimizers,
        "NAME, NAME:DENSITY or NAME:H, as often as wanted; the first is the base line: adams (sharded, "
        "dense), adamw, "
        "dense-bf16, dense-bf16-all, topk-indices, ok-topk, scape, scape-using-up, scape-bf16, unsharded, "
        "diloco, gasloc. Behind it what compresses the boundaries of --stages: +mapl:TIMES, +fixed:TIMES "
        "(untrained subspaces), +free:TIMES (trained without the manifold); last, :RATE of a subspace "
        "beside "
        "the learning rate (0.1)");
    command.add_option("-P,--ranks", asked.plan.ranks,
                       "ranks that share the training, as threads; under mpirun as many as it starts");
    command.add_option(
        "--stages", asked.plan.stages,
        "pipeline stages into which each rank's layers are cut; the traffic between them is counted");
    command.add_option("--communicator", asked.communicator,
                       "in_process (threads) or mpi (started by mpirun)");
    command.add_option("--steps", asked.steps,
                       "of each run; of several numbers each, with a map of SCAPE's densities by steps");
    command.add_option("--batch", asked.plan.batch, "windows a rank and step");
    command
        .add_option("--seeds", asked.seeds,
                    "runs of each optimizer; those of one seed have the same start and the same batches")
        ->check(CLI::Range(1, 10'000));
    command.add_option("--base-seeds", asked.base_seeds,
                       "runs of the base line, which show the effect of chance; 0: as many as --seeds");
    command.add_option("--margin", asked.margin,
                       "nats a symbol: a candidate that is shown to differ by less is the SAME");
    command.add_option("--first-seed", asked.first_seed, "the first seed; the others follow it");
    command.add_option("--measure-every", asked.plan.measure_every,
                       "steps, and at the end; of diloco and gasloc where the next round ends");
    command.add_option("--measured-windows", asked.plan.measured_windows,
                       "the same ones for all, spread over the measured text");
    command.add_option(
        "--checkpoints", asked.plan.checkpoints,
        "a folder, for a file a run: the same command continues from there, to the same bits");
    command.add_option("--checkpoint-every", asked.plan.checkpoint_every, "steps, and at the end");
    command.add_option("--json", asked.json,
                       "write curves, floors and verdicts to this file, after each run");
    command.add_option(bench::benchmark_out_option, asked.benchmark_out, bench::benchmark_out_help);
    command.add_option("--curves", asked.curves,
                       "files that --json has written: nothing is trained, the runs in them are judged and "
                       "drawn together; the first one's optimizer is the base line");
    command.add_option("--report", asked.report,
                       "a folder, for a page, its pictures and the same JSON, after each run");
    problem::add_timeline_option(command);
}

void add_settings(CLI::App& command, TrainCall& asked) {
    training::Plan& plan = asked.plan;
    command.add_option("--learning-rate", asked.rates,
                       "at its peak; falls along half a cosine to a tenth. Of several each optimizer takes "
                       "the one that ends lowest for a seed "
                       "that is not judged");
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

void add_train_options(CLI::App& command, TrainCall& asked) {
    add_runs(command, asked);
    add_settings(command, asked);
}

} // namespace truestep::training

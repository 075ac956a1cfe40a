// Runs `truestep train`: tunes rates, trains each optimizer over seeds, and prints progress.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>

#include <truestep/distributed/mpi.hpp>
#include <truestep/gate/exit_status.hpp>
#include <truestep/gate/subcommands.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/training/run.hpp>
#include <truestep/training/text.hpp>

#include "benchmark_out.hpp"
#include "train_call.hpp"

namespace truestep::training {

namespace {

using gate::all_passed;
using gate::bad_input;
using gate::difference;

using Clock = std::chrono::steady_clock;

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

/// `step_seconds` gets the time of each step. A measurement of the loss is in the time of the step after
/// it, and so in few of them.
Curve train_one(const Plan& plan, const Text& text, const std::string& optimizer, std::uint64_t seed,
                std::vector<double>& step_seconds) {
    gate::Progress progress(optimizer + ", seed " + std::to_string(seed));
    const auto begin = Clock::now();
    auto last = begin;
    double smooth = 0; // the loss of a single batch is noisy
    return training::train(text, plan, optimizer, seed, [&](std::size_t step, double loss) {
        step_seconds.push_back(seconds_since(last));
        last = Clock::now();
        smooth = step == 1 ? loss : 0.95 * smooth + 0.05 * loss;
        progress.show(progress_text(step, plan.steps, smooth, seconds_since(begin)));
    });
}

/// "250, 1000".
template <class T>
std::string list(const std::vector<T>& values) {
    std::string words;
    for (const T value : values)
        words += (words.empty() ? "" : ", ") + shortest(static_cast<double>(value));
    return words;
}

/// "bigram 3.347, trigram 2.175", and the best order, if it is another.
std::string floors_text(const std::vector<training::Floor>& floors) {
    const training::Floor& best = *std::ranges::min_element(floors, {}, &training::Floor::loss);
    std::string words;
    for (const training::Floor& floor : floors)
        if (floor.order == 1 || floor.order == 2 || floor.order == best.order) {
            char text[64];
            std::snprintf(text, sizeof text, "%s%s %.3f", words.empty() ? "" : ", ", name(floor).c_str(),
                          floor.loss);
            words += text;
        }
    return words;
}

void print_head(const TrainCall& asked, const Text& text, const std::vector<training::Floor>& floors,
                double parameters) {
    const Plan& plan = asked.plan;
    std::printf("text   %s; uniform guessing has a loss of %.3f\n", words_of(text).c_str(),
                std::log(static_cast<double>(text.symbols)));
    std::printf("floors counting reaches: %s", floors_text(floors).c_str());
    if (text.entropy)
        std::printf("; entropy of the text %.3f", *text.entropy);
    std::printf("\n");
    const std::string stages =
        plan.stages > 1 ? ", cut into " + std::to_string(plan.stages) + " stages" : "";
    std::printf("model  %.0f parameters: %zu layers of width %zu, %zu heads, windows of %zu%s\n",
                parameters, plan.shape.layers, plan.shape.width, plan.shape.heads, plan.shape.context,
                stages.c_str());
    std::printf("runs   %s steps, %d ranks, %zu windows a rank and step, learning rate %s; losses in nats "
                "a symbol\n",
                list(asked.steps).c_str(), plan.ranks, plan.batch, list(asked.rates).c_str());
    std::printf("%-18s %6s %9s %9s %8s %17s %9s\n", "optimizer", "seed", "loss", "least", "at step",
                "bytes/param/step", "seconds");
    std::fflush(stdout);
}

/// The bytes that one rank has sent, per parameter and step.
double bytes_each(const Curve& curve, const Plan& plan, double parameters) {
    return static_cast<double>(curve.points.back().bytes) / plan.ranks / static_cast<double>(plan.steps) /
           parameters;
}

void print_row(const Curve& curve, const Plan& plan, double parameters, double seconds) {
    const Curve::Point& last = curve.points.back();
    const Curve::Point& least = *std::ranges::min_element(curve.points, {}, &Curve::Point::loss);
    std::printf("%-18s %6llu %9.4f %9.4f %8zu %17.4f %9.1f\n", curve.optimizer.c_str(),
                static_cast<unsigned long long>(curve.seed), last.loss, least.loss, least.step,
                bytes_each(curve, plan, parameters), seconds);
    std::fflush(stdout);
}

Plan plan_of(const TrainCall& asked, std::size_t steps, double rate) {
    Plan plan = asked.plan;
    plan.steps = steps;
    plan.warm_up = asked.warm_up.value_or(steps / 10);
    plan.learning_rate = rate;
    return plan;
}

template <class T>
void check_once(const std::string& option, const std::vector<T>& values, const std::string& why) {
    for (const T& value : values)
        if (std::ranges::count(values, value) > 1)
            throw Error(option + " has one of its values twice; " + why);
}

void check_asked(const TrainCall& asked, const Text& text) {
    for (const std::size_t steps : asked.steps)
        for (const double rate : asked.rates)
            training::check(plan_of(asked, steps, rate), text, asked.optimizers);
    if (!(asked.margin > 0.0) || !std::isfinite(asked.margin))
        throw Error("--margin is " + shortest(asked.margin) +
                    "; it must be above 0: no number of runs shows that there is no difference");
    if (asked.base_seeds != 0 && asked.base_seeds < asked.seeds)
        throw Error(
            "--base-seeds is " + std::to_string(asked.base_seeds) + " and --seeds " +
            std::to_string(asked.seeds) +
            "; the base line's runs are paired with each candidate's, so it must be at least as many");
    if (!asked.benchmark_out.empty() && !asked.curves.empty())
        throw Error("--benchmark_out has the times of steps, and --curves trains nothing; leave one out");
    if (!asked.benchmark_out.empty() && !report::can_be_written(asked.benchmark_out))
        throw Error("--benchmark_out " + asked.benchmark_out +
                    " cannot be written; check the folder and its rights");
    check_once("--optimizer", asked.optimizers, "each is trained once a seed");
    check_once("--steps", asked.steps, "one run says what two of the same would");
    if (asked.steps.size() > 1 && !asked.plan.checkpoints.empty())
        throw Error("--checkpoints keeps one file a run by its optimizer and seed; give one number of "
                    "--steps with it");
}

/// The rate with the lowest end, from runs with a seed that is used nowhere else; a single rate
/// needs no runs.
double tuned(const TrainCall& asked, std::size_t steps, const Text& text, const std::string& optimizer) {
    if (asked.rates.size() == 1)
        return asked.rates.front();
    std::string tried;
    double best = std::numeric_limits<double>::infinity();
    double rate_of_best = 0;
    for (const double rate : asked.rates) {
        Plan plan = plan_of(asked, steps, rate);
        plan.checkpoints.clear();
        const std::uint64_t seed = asked.first_seed + std::max(asked.seeds, asked.base_seeds);
        std::vector<double> ignored;
        const double loss = train_one(plan, text, optimizer, seed, ignored).points.back().loss;
        char words[32];
        std::snprintf(words, sizeof words, "%.4f", loss);
        if (loss < best) { // false for NaN
            best = loss;
            rate_of_best = rate;
        }
        tried += (tried.empty() ? "" : ", ") + shortest(rate) + " " + words;
    }
    if (rate_of_best == 0)
        throw Error(optimizer + ": its loss is not finite at any rate of --learning-rate (" + tried +
                    "); give lower ones");
    const auto [least, most] = std::ranges::minmax(asked.rates);
    std::printf("%s takes learning rate %s (%s%s)\n", optimizer.c_str(), shortest(rate_of_best).c_str(),
                tried.c_str(),
                rate_of_best == least || rate_of_best == most ? "; an end of the list: try beyond it" : "");
    std::fflush(stdout);
    return rate_of_best;
}

/// bench/README.md promises it to trackers.
std::string benchmark_name(const Plan& plan, const std::string& optimizer, double parameters) {
    std::string name = "train/" + optimizer + "/d:" + shortest(parameters) +
                       "/batch:" + std::to_string(plan.batch) + "/steps:" + std::to_string(plan.steps) +
                       "/P:" + std::to_string(plan.ranks);
    if (plan.stages > 1)
        name += "/stages:" + std::to_string(plan.stages);
    return plan.processes ? name + "/mpi" : name;
}

/// Adds a row of step times; none where checkpoints already had all steps.
void run_seeds(const TrainCall& asked, const Plan& plan, const Text& text, const std::string& optimizer,
               std::size_t seeds, TrainResults& results, std::vector<bench::BenchmarkRow>& rows) {
    const auto parameters = static_cast<double>(training::layout_of(plan.shape).size());
    bench::BenchmarkRow row{.name = benchmark_name(plan, optimizer, parameters), .seconds = {}};
    const std::clock_t cpu = std::clock();
    for (std::uint64_t seed = asked.first_seed; seed < asked.first_seed + seeds; ++seed) {
        const auto begin = Clock::now();
        const Curve curve = train_one(plan, text, optimizer, seed, row.seconds);
        print_row(curve, plan, parameters, seconds_since(begin));
        row.counters["loss"] += curve.points.back().loss / static_cast<double>(seeds);
        row.counters["sent_B/param"] = bytes_each(curve, plan, parameters);
        results.add(curve);
        results.write();
    }
    if (row.seconds.empty())
        return;
    const int ranks_here = plan.processes ? 1 : plan.ranks;
    row.cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / ranks_here /
                      static_cast<double>(row.seconds.size());
    rows.push_back(std::move(row));
}

/// The base line comes first, with all its seeds, so that sigma is fixed before a candidate runs.
/// Sets `begun` once the options are known to be valid.
bool train_all(TrainCall asked, const std::vector<std::string>& arguments, bool& begun) {
    const Text text = training::text_named(asked.text);
    asked.plan.shape.symbols = text.symbols;
    asked.plan.hyper.bias_correction = problem::parse<problem::BiasCorrection>(asked.correction);
    check_asked(asked, text);
    if (!asked.curves.empty())
        return judge_curves(asked, asked.plan, text, arguments);
    TrainResults results(asked, asked.plan, text, arguments);
    begun = true;
    results.write(); // an unwritable file is reported before hours of training
    print_head(asked, text, results.floors(),
               static_cast<double>(training::layout_of(asked.plan.shape).size()));
    std::vector<bench::BenchmarkRow> rows;
    for (const std::size_t steps : asked.steps) {
        results.begin(steps);
        for (const std::string& optimizer : asked.optimizers) {
            const bool base = optimizer == asked.optimizers.front();
            const double rate = tuned(asked, steps, text, optimizer);
            run_seeds(asked, plan_of(asked, steps, rate), text, optimizer,
                      base ? std::max(asked.seeds, asked.base_seeds) : asked.seeds, results, rows);
            if (base)
                results.fix_sigma();
            else if (const std::string verdict = results.judge(optimizer); !verdict.empty())
                std::printf("%s\n", verdict.c_str());
            std::fflush(stdout);
        }
    }
    bench::write_benchmark_out(asked.benchmark_out, rows);
    return results.good();
}

/// Every process is a rank, and the first prints. Errors in the settings occur on all ranks; later
/// errors occur on one, and end the job.
int train_on_ranks(TrainCall asked, const std::vector<std::string>& arguments) {
    bool begun = false;
    if (asked.communicator == "in_process")
        return train_all(std::move(asked), arguments, begun) ? all_passed : difference;
    if (asked.communicator != "mpi")
        throw Error("--communicator is '" + asked.communicator + "'; it must be in_process or mpi");
    int no_arguments = 0;
    char** none = nullptr;
    const distributed::MpiSession session(no_arguments, none);
    asked.plan.processes = true;
    asked.plan.ranks = session.size();
    if (session.rank() > 0) {
        asked.json.clear();
        asked.benchmark_out.clear();
        asked.report.clear();
        if (std::freopen("/dev/null", "w", stdout) == nullptr)
            throw Error("/dev/null cannot be written");
    }
    try {
        return train_all(std::move(asked), arguments, begun) ? all_passed : difference;
    } catch (const training::AgreedError& error) {
        if (session.rank() == 0)
            std::fprintf(stderr, "truestep: %s\n", one_line(error.what()).c_str());
        return bad_input;
    } catch (const Error& error) {
        if (begun || session.rank() == 0)
            std::fprintf(stderr, "truestep: %s\n", one_line(error.what()).c_str());
        if (begun)
            throw;
        return bad_input;
    }
}

void add_train(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command =
        app.add_subcommand("train", "train a small GPT with any optimizer and compare it with another");
    auto asked = std::make_shared<TrainCall>();
    command->option_defaults()->always_capture_default();
    add_train_options(*command, *asked);
    command->footer(
        "With two seeds and more each candidate has a verdict beside the base line: SAME, BETTER, WORSE, "
        "UNDECIDED or "
        "MISTRUSTED.\n"
        "Exit status: 0 trained, and no verdict but SAME and BETTER, 1 another verdict, 2 bad input or "
        "usage.\n"
        "Examples:\n"
        "  truestep train --text README.md --steps 200\n"
        "  truestep train --text synthetic --optimizer adams scape:0.1 scape:0.01 diloco:30 "
        "--seeds 4 --base-seeds 10 --report report\n"
        "  truestep train --text README.md --layers 4 --stages 4 --optimizer adams adams+mapl:8\n"
        "  mpirun -n 4 truestep train --communicator mpi --text README.md --steps 200");
    command->callback([asked, &status, arguments] { status = train_on_ranks(*asked, arguments); });
}

} // namespace

} // namespace truestep::training

int main(int count, char** values) {
    return truestep::gate::subcommand_main("train", count, values, truestep::training::add_train);
}

#include "commands.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <unistd.h>

#include <scape/distributed/in_process.hpp>
#include <scape/distributed/mpi.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/verify/check.hpp>
#include <scape/verify/record.hpp>
#include <scape/verify/report.hpp>
#include <scape/verify/table.hpp>

namespace scape::tool {

namespace {

using distributed::Communicator;

struct Settings {
    std::string communicator = "in_process";
    std::vector<int> workers;
    std::vector<double> densities{1.0, 0.1, 0.01};
    std::vector<std::string> partitions{"by_shard", "by_tensor"};
    std::vector<std::string> corrections{"adam"};
    std::string algorithm = "scape";
    std::string reduction = "ordered";
    std::string level;
    std::string tensors = "embed:700,norm:33:dense,gate:1,mlp:901,tiny:7";
    std::int64_t steps = 8;
    std::uint64_t seed = 1;
    std::string data = "normal";
    double clip_norm = 0.0;
    int threads = 1;
    double timeout = 60.0;
    std::string save;
    std::string json;
};

/// One row of the table: a setting with a single value for each of the lists.
struct Case {
    int workers;
    double density;
    std::string partition;
    std::string correction;
};

std::vector<Case> cases(const Settings& settings, const std::vector<int>& workers) {
    const std::vector<double> densities =
        settings.algorithm == "adams" ? std::vector<double>{1.0} : settings.densities;
    std::vector<Case> all;
    for (const int count : workers)
        for (const double density : densities)
            for (const std::string& partition : settings.partitions)
                for (const std::string& correction : settings.corrections)
                    all.push_back({count, density, partition, correction});
    return all;
}

verify::CheckSetting make_setting(const Settings& settings, const Case& one) {
    problem::HyperParameters hyper;
    hyper.bias_correction = problem::parse<problem::BiasCorrection>(one.correction);
    hyper.clip_norm = settings.clip_norm;
    const auto partition = problem::parse<problem::PartitionRule>(one.partition);
    verify::CheckSetting setting{
        problem::make_problem(problem::parse<problem::Algorithm>(settings.algorithm), one.workers,
                              problem::Layout(verify::parse_tensors(settings.tensors)), partition, hyper),
        partition, problem::DensitySchedule::constant(one.density),
        distributed::parse_reduction(settings.reduction)};
    const std::string_view had = distributed::level(setting.reduction);
    if (!settings.level.empty() &&
        verify::parse_trace_level(settings.level).kind == verify::LevelKind::exact && had != "exact")
        throw Error("--level exact cannot be had with --reduction native: it adds in the communicator's "
                    "own order; use "
                    "--reduction ordered, or --level rel");
    if (settings.steps < 1)
        throw Error("--steps is " + std::to_string(settings.steps) + "; at least 1 is needed");
    if (!(settings.timeout >= 0.001 && settings.timeout <= 31'536'000.0))
        throw Error("--timeout is " + shortest(settings.timeout) + "; it must be 0.001 seconds to a year");
    if (settings.threads < 1 || settings.threads > 1024)
        throw Error("--threads is " + std::to_string(settings.threads) + "; it must be 1 to 1024");
    setting.steps = settings.steps;
    setting.seed = settings.seed;
    setting.data = verify::parse_data_class(settings.data);
    setting.threads = settings.threads;
    return setting;
}

std::string command_line(const Settings& settings, const Case& one) {
    const bool mpi = settings.communicator == "mpi";
    return std::string(mpi ? "mpirun -n " + std::to_string(one.workers) + " " : "") +
           "scape check --communicator " + settings.communicator +
           (mpi ? "" : " --workers " + std::to_string(one.workers)) + " --density " +
           shortest(one.density) + " --partition " + one.partition + " --bias-correction " +
           one.correction + " --algorithm " + settings.algorithm + " --reduction " + settings.reduction +
           " --tensors " + shell_word(settings.tensors) + " --steps " + std::to_string(settings.steps) +
           " --seed " + std::to_string(settings.seed) + " --data " + settings.data + " --clip-norm " +
           shortest(settings.clip_norm) + " --threads " + std::to_string(settings.threads);
}

std::filesystem::path trace_path(const Settings& settings, const Case& one) {
    const std::filesystem::path folder = settings.save.empty() ? std::filesystem::temp_directory_path()
                                                               : std::filesystem::path(settings.save);
    return folder /
           ("scape_check_" + (settings.save.empty() ? std::to_string(getpid()) + "_" : std::string()) +
            settings.communicator + "_p" + std::to_string(one.workers) + "_d" + shortest(one.density) +
            "_" + one.partition + "_" + one.correction + ".safetensors");
}

/// The rows so far, and what they add up to. Filled on rank 0.
class Outcome {
  public:
    void add(const Settings& settings, const Case& one, const verify::CheckOutcome& outcome) {
        const verify::Row all = verify::total(outcome.verdict->rows);
        char seconds[32];
        std::snprintf(seconds, sizeof seconds, "%.3f", outcome.seconds);
        table_.add({"host", settings.communicator, settings.algorithm, settings.reduction,
                    std::to_string(one.workers), shortest(one.density), one.partition, one.correction,
                    name(outcome.verdict->level), std::to_string(all.compared),
                    std::to_string(all.mismatched), std::to_string(all.unbounded),
                    verify::ulps_text(all.greatest_ulps), verify::percent(all.share_of_limit), seconds,
                    name(outcome.status())});
        const bool ok = outcome.status() == verify::Status::passed;
        (ok ? passed_ : failed_) += 1;
        if (!ok)
            failures_ +=
                "$ " + command_line(settings, one) + "\n" + text_report(*outcome.verdict) +
                (outcome.replica_drift.empty() ? "" : "  replicas drift: " + outcome.replica_drift + "\n") +
                coloured(outcome.status()) + "\n\n";
        auto row = json_report(*outcome.verdict);
        row["trace"] = nullptr; // a temporary file's name says nothing
        row["command"] = command_line(settings, one);
        row["replica_drift"] = outcome.replica_drift;
        row["status"] = name(outcome.status());
        json_.push_back(row);
    }

    /// An implementation that ends with an error of its own has not passed, and the next case is run all
    /// the same.
    void add_error(const Settings& settings, const Case& one, const std::string& error) {
        table_.add({"host", settings.communicator, settings.algorithm, settings.reduction,
                    std::to_string(one.workers), shortest(one.density), one.partition, one.correction, "-",
                    "-", "-", "-", "-", "-", "-", name(verify::Status::failed)});
        ++failed_;
        failures_ += "$ " + command_line(settings, one) +
                     "\n  the implementation ended with an error: " + error + "\n" +
                     coloured(verify::Status::failed) + "\n\n";
        json_.push_back({{"command", command_line(settings, one)},
                         {"error", error},
                         {"status", name(verify::Status::failed)}});
    }

    void print() const {
        std::printf("%s%s%d passed, %d failed\n", table_.text().c_str(),
                    failures_.empty() ? "" : ("\n" + failures_).c_str(), passed_, failed_);
    }
    [[nodiscard]] nlohmann::ordered_json json(const std::vector<std::string>& arguments) const {
        return {{"command", arguments},
                {"environment", verify::json_environment()},
                {"rows", json_},
                {"passed", passed_},
                {"failed", failed_}};
    }
    [[nodiscard]] bool all_passed() const { return failed_ == 0; }

  private:
    verify::Table table_{{{"implementation"},
                          {"communicator"},
                          {"algorithm"},
                          {"reduction"},
                          {"workers", true},
                          {"density", true},
                          {"partition"},
                          {"correction"},
                          {"level"},
                          {"values", true},
                          {"#wrong", true},
                          {"unbounded", true},
                          {"max ULP", true},
                          {"% of limit", true},
                          {"seconds", true},
                          {"status"}}};
    std::string failures_;
    nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
    int passed_ = 0;
    int failed_ = 0;
};

/// On rank 0 the outcome has a verdict. The trace stays only where it was asked for.
verify::CheckOutcome run_case(const Settings& settings, const Case& one, Communicator& communicator) {
    const auto path = trace_path(settings, one);
    verify::CheckOutcome outcome = check_sharded(make_setting(settings, one), communicator, path);
    if (communicator.rank() == 0 && settings.save.empty())
        std::filesystem::remove(path);
    return outcome;
}

std::chrono::milliseconds timeout_of(const Settings& settings) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(settings.timeout));
}

void finish(const Settings& settings, const Outcome& outcome, const std::vector<std::string>& arguments) {
    outcome.print();
    if (!settings.json.empty())
        write_json(settings.json, outcome.json(arguments));
}

int run_in_process(const Settings& settings, const std::vector<std::string>& arguments) {
    const std::vector<int> workers =
        settings.workers.empty() ? std::vector<int>{1, 2, 3, 4, 5, 7, 8} : settings.workers;
    const auto all = cases(settings, workers);
    for (const Case& one : all)
        static_cast<void>(make_setting(settings, one)); // a wrong one is told before the first has run
    Outcome outcome;
    Progress progress("scape check");
    std::int64_t done = 0;
    for (const Case& one : all) {
        progress.show(++done, static_cast<std::int64_t>(all.size()));
        try {
            distributed::run_ranks(
                one.workers,
                [&](Communicator& communicator) {
                    const verify::CheckOutcome result = run_case(settings, one, communicator);
                    if (communicator.rank() == 0)
                        outcome.add(settings, one, result);
                },
                timeout_of(settings));
        } catch (const Error&) {
            throw; // bad input: the same for every case
        } catch (const std::exception& error) {
            outcome.add_error(settings, one, error.what());
        }
    }
    finish(settings, outcome, arguments);
    return outcome.all_passed() ? all_passed : difference;
}

/// What is wrong with the settings, or "". On all ranks the same.
std::string fault(const Settings& settings, const std::vector<Case>& all, int ranks) {
    try {
        if (!settings.workers.empty() && settings.workers != std::vector<int>{ranks})
            throw Error(
                "--workers does not go with --communicator mpi; start as many ranks with mpirun -n");
        for (const Case& one : all)
            static_cast<void>(make_setting(settings, one));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Every rank is a process of this tool, started by mpirun: their number is the number of workers.
int run_mpi(const Settings& settings, const std::vector<std::string>& arguments) {
    int no_arguments = 0;
    char** none = nullptr;
    const distributed::MpiSession session(no_arguments, none);
    const auto communicator = distributed::make_mpi_communicator({timeout_of(settings)});
    const std::vector<Case> all = cases(settings, {communicator->size()});
    if (const std::string wrong = fault(settings, all, communicator->size()); !wrong.empty()) {
        if (communicator->rank() == 0)
            std::fprintf(stderr, "scape: %s\n", wrong.c_str());
        return bad_input;
    }
    // While rank 0 verifies, which may take longer than any exchange should, the others wait on this one.
    const auto patient = distributed::make_mpi_communicator({std::chrono::hours(24)});
    try {
        Outcome outcome;
        for (const Case& one : all) {
            const verify::CheckOutcome result = run_case(settings, one, *communicator);
            if (communicator->rank() == 0)
                outcome.add(settings, one, result);
            static_cast<void>(distributed::gather_records(*patient, 0));
        }
        if (communicator->rank() == 0)
            finish(settings, outcome, arguments);
        // All ranks end with rank 0's verdict.
        const auto verdicts = distributed::gather_records(*patient, outcome.all_passed() ? 0 : 1);
        return verdicts[0] == 0 ? all_passed : difference;
    } catch (const std::exception& error) {
        communicator->abort(error.what());
        throw;
    }
}

int run(const Settings& settings, const std::vector<std::string>& arguments) {
    if (settings.communicator == "in_process")
        return run_in_process(settings, arguments);
    if (settings.communicator == "mpi")
        return run_mpi(settings, arguments);
    throw Error("--communicator is '" + settings.communicator + "'; it must be in_process or mpi");
}

} // namespace

void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand("check", "run the sharded implementation beside the reference");
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("--communicator", settings->communicator,
                        "in_process (threads) or mpi (started by mpirun)");
    command->add_option("--workers", settings->workers, "numbers of ranks; default 1,2,3,4,5,7,8")
        ->delimiter(',');
    command->add_option("--density", settings->densities, "shares that are synchronized")->delimiter(',');
    command->add_option("--partition", settings->partitions, "by_shard, by_tensor")->delimiter(',');
    command->add_option("--bias-correction", settings->corrections, "none, adam, momentum")->delimiter(',');
    command->add_option("--algorithm", settings->algorithm, "scape or adams");
    command->add_option("--reduction", settings->reduction,
                        "ordered (EXACT) or native, the communicator's own (REL)");
    command->add_option("--level", settings->level,
                        "the level to insist on; default: the highest that the reduction can give");
    command->add_option("--tensors", settings->tensors,
                        "name:size or name:size:dense, with commas between");
    command->add_option("--steps", settings->steps, "steps a run");
    command->add_option("--seed", settings->seed, "of gradients and parameters");
    command->add_option("--data", settings->data, "class of the gradients: " + verify::data_class_names());
    command->add_option("--clip-norm", settings->clip_norm, "largest norm of the gradient; 0: no clipping");
    command->add_option("--threads", settings->threads, "threads a rank; they change no bit");
    command->add_option("--timeout", settings->timeout, "seconds after which a silent rank ends all");
    command->add_option("--save", settings->save, "keep the runs' traces in this folder");
    command->add_option("--json", settings->json,
                        "also write the result, with the environment, to this file");
    command->footer("Exit status: 0 all passed, 1 a difference, 2 bad input or usage; under mpirun 3 if a "
                    "rank failed.\n"
                    "Examples:\n"
                    "  scape check\n"
                    "  scape check --workers 3,5 --density 0.01 --partition by_tensor --steps 100\n"
                    "  scape check --reduction native --bias-correction none,adam,momentum\n"
                    "  mpirun -n 3 scape check --communicator mpi");
    command->callback([settings, &status, &arguments] { status = run(*settings, arguments); });
}

} // namespace scape::tool

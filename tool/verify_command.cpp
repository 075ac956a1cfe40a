// Adds `truestep verify`, which checks traces against the reference and writes pages and JUnit.
#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include <truestep/gate/results.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/report/runs.hpp>
#include <truestep/report/summary.hpp>
#include <truestep/report/table.hpp>
#include <truestep/trace/ranks.hpp>
#include <truestep/verify/diagnosis.hpp>
#include <truestep/verify/report.hpp>
#include <truestep/verify/traces.hpp>

#include "systems.hpp"
#include "verify_fits.hpp"

namespace truestep::tool {

namespace {

struct VerifyRun {
    std::vector<std::string> traces;
    std::string from;
    std::string level = "exact";
    std::string system;
    std::string json;
    std::string report;
    std::string junit;
    std::string summary;
    bool brief = false;
    int threads = verify::VerifyOptions().threads;
};

/// Counts of verdicts. A trace that was checked but proved nothing counts as failed, and is named.
struct Counts {
    int passed = 0;
    int failed = 0;
    int mistrusted = 0;
    bool bad_input = false;
};

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
}

/// One table for many traces; failed ones are reported in full below it.
class BriefTable {
  public:
    void add(const verify::TraceVerdict& verdict) {
        const verify::Row all = verify::total(verdict.rows);
        for (const std::string& note : verdict.notes)
            if (note == verify::replicas_not_recorded)
                ++not_recorded_;
            else
                notes_ += "  note: " + verdict.path + ": " + note + "\n";
        table_.add({verdict.path, name(verdict.level), name(verdict.from), std::to_string(all.compared),
                    std::to_string(all.mismatched), std::to_string(all.unbounded),
                    report::ulps_text(all.greatest_ulps),
                    report::percent_of_limit(all.share_of_limit, all.mismatched > 0),
                    name(verdict.status)});
    }

    [[nodiscard]] std::string text() const {
        // This applies to most traces, so it is printed once, with a count.
        return table_.text() + notes_ +
               (not_recorded_ == 0 ? ""
                                   : "  note: of " + std::to_string(not_recorded_) +
                                         " traces: " + std::string(verify::replicas_not_recorded) + "\n");
    }

  private:
    std::string notes_;
    int not_recorded_ = 0;
    report::Table table_{{{"trace"},
                          {"level"},
                          {"from"},
                          {"values", true},
                          {"#wrong", true},
                          {"unbounded", true},
                          {"max ULP", true},
                          {"% of limit", true},
                          {"status"}}};
};

std::string command_line(const std::string& trace, const VerifyRun& settings) {
    return "truestep verify " + gate::shell_word(trace) +
           (settings.from.empty() ? "" : " --from " + settings.from) + " --level " + settings.level;
}

/// The results of one trace: for --json, and for the page and JUnit.
struct ToldTrace {
    nlohmann::ordered_json json;
    nlohmann::ordered_json page;
};

ToldTrace bad_trace(const std::string& trace, const Error& error, Counts& counts) {
    std::fflush(stdout);
    std::fprintf(stderr, "truestep verify: %s\n", one_line(error.what()).c_str());
    ++counts.failed;
    counts.bad_input = true;
    return {{{"trace", trace}, {"error", error.what()}}, {{"path", trace}, {"error", error.what()}}};
}

ToldTrace verify_one(const std::string& trace, const VerifyRun& settings, verify::VerifyOptions options,
                     Counts& counts, BriefTable& brief) {
    // The command comes before the run, so that it is printed even if that crashes.
    if (!settings.brief)
        print("$ " + command_line(trace, settings) + "\n");
    std::fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    try {
        gate::Progress progress(trace);
        options.progress = [&](verify::Index step, verify::Index steps) { progress.show(step, steps); };
        const gate::System& system = system_of_trace(trace, settings.system);
        const verify::TraceVerdict verdict = system.traces.verify(trace, options);
        const std::vector<std::string> fits = what_fits(system, verdict, trace, options);
        const bool passed = verdict.status == verify::Status::passed;
        gate::Progress::clear();
        if (settings.brief)
            brief.add(verdict);
        if (settings.brief && !passed)
            print("$ " + command_line(trace, settings) + "\n");
        if (!settings.brief || !passed)
            print(text_report(verdict) + verify::text_of_diagnosis(fits) + gate::coloured(verdict.status) +
                  "  " + trace + "\n\n");
        (passed ? counts.passed : counts.failed) += 1;
        counts.mistrusted += verdict.status == verify::Status::mistrusted ? 1 : 0;
        nlohmann::ordered_json json = json_report(verdict);
        json["fits"] = fits;
        nlohmann::ordered_json page = json_page(verdict);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        page.update({{"path", trace},
                     {"command", command_line(trace, settings)},
                     {"seconds", taken.count()},
                     {"fits", fits}});
        return {json, page};
    } catch (const Error& error) {
        return bad_trace(trace, error, counts);
    }
}

/// Verifies one run: a trace, or the files of its ranks.
ToldTrace verify_run(const std::vector<std::filesystem::path>& files, const VerifyRun& settings,
                     const verify::VerifyOptions& options, Counts& counts, BriefTable& brief) {
    // An unreadable file is reported below the command, by the code that reads it.
    std::string trace = files.front().string();
    try {
        trace = trace::run_of(files).string();
    } catch (const Error& error) {
        if (files.size() > 1)
            return bad_trace(trace, error, counts);
    }
    return verify_one(trace, settings, options, counts, brief);
}

void write_pages(const VerifyRun& settings, const nlohmann::ordered_json& runs) {
    if (!settings.junit.empty())
        report::write_text(settings.junit, report::runs_junit(runs));
    report::add_runs_summary(settings.summary, runs);
    if (settings.report.empty())
        return;
    report::write_runs_folder(settings.report, runs);
    print("report: " + settings.report + "/index.html\n");
}

int run(const VerifyRun& settings, const std::vector<std::string>& arguments) {
    verify::VerifyOptions options;
    options.level = verify::parse_trace_level(settings.level);
    options.threads = settings.threads;
    if (!settings.from.empty())
        options.from = verify::parse_from(settings.from);

    Counts counts;
    BriefTable brief;
    options.look = !settings.report.empty();
    nlohmann::ordered_json traces = nlohmann::ordered_json::array();
    nlohmann::ordered_json pages = nlohmann::ordered_json::array();
    for (const auto& files : trace::by_run({settings.traces.begin(), settings.traces.end()})) {
        ToldTrace told = verify_run(files, settings, options, counts, brief);
        traces.push_back(std::move(told.json));
        pages.push_back(std::move(told.page));
    }
    if (settings.brief && !traces.empty())
        print(brief.text());
    if (!settings.json.empty())
        report::write_json(settings.json, {{"command", arguments},
                                           {"environment", report::json_environment()},
                                           {"traces", traces},
                                           {"passed", counts.passed},
                                           {"failed", counts.failed},
                                           {"mistrusted", counts.mistrusted}});
    write_pages(settings, {{"command", arguments},
                           {"environment", report::json_environment()},
                           {"traces", std::move(pages)}});
    if (counts.mistrusted > 0)
        print(std::to_string(counts.mistrusted) +
              " of the failed only MISTRUSTED: no difference, but no proof\n");
    print(std::to_string(counts.passed) + " passed, " + std::to_string(counts.failed) + " failed\n");
    return counts.bad_input ? bad_input : counts.failed > 0 ? difference : all_passed;
}

} // namespace

void add_verify(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand("verify", "check recorded runs against the reference");
    auto settings = std::make_shared<VerifyRun>();
    command
        ->add_option(
            "TRACE", settings->traces,
            "scape-trace files (specification, section 9); the files that the ranks of a run wrote "
            "count as one run")
        ->required();
    command->add_option(
        "--from", settings->from,
        "recorded: each step of the reference begins at the recorded state before it, so that one "
        "early rounding does not hide the rest; start: the reference runs on its own. Default: recorded "
        "where the "
        "trace holds the states, else start");
    command->add_option(
        "--level", settings->level,
        "exact: the same bits, sign of zero included; rel: within a bound per value on fp32 "
        "rounding, around the double-precision reference; bf16: the same of an optimizer that keeps and "
        "computes everything in bf16, step by step. Default: exact");
    command->add_option("--system", settings->system,
                        "accept only traces of this system; a trace names its system: " + with_traces());
    command->add_flag("--brief", settings->brief, "one row for each trace; details for failures only");
    command
        ->add_option(
            "--threads", settings->threads,
            "threads that share a large trace; their number does not change the verdict. Default: the "
            "machine's cores")
        ->check(CLI::Range(1, 1024));
    command->add_option("--json", settings->json,
                        "also write the result, with the environment, to this file");
    command->add_option(
        "--report", settings->report,
        "write a page (index.html) and JUnit (junit.xml) into this folder, which is created: each "
        "run's verdict, differences by step and tensor, and curves");
    command->add_option("--junit", settings->junit, "write only JUnit's XML, to this file");
    command->add_option("--summary", settings->summary, report::summary_help);
    command->footer(
        "Exit status: 0 all passed, 1 a difference (or too little data to prove anything), 2 bad input "
        "or usage.\n"
        "Examples:\n"
        "  truestep verify fixtures/scape/golden/*.safetensors\n"
        "  truestep verify run.rank*.safetensors\n"
        "  truestep verify --level rel fixtures/scape/artifact/*.safetensors\n"
        "  truestep verify --level bf16 my_run.safetensors\n"
        "  truestep verify --from start --json result.json my_run.safetensors\n"
        "  truestep verify --report report my_run.safetensors");
    command->callback([settings, &status, &arguments] { status = run(*settings, arguments); });
}

} // namespace truestep::tool

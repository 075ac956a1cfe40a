// Provides C functions that verify a trace, check collectives, or join the files of ranks.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/status.hpp>
#include <truestep/report/summary.hpp>
#include <truestep/trace/bundle.hpp>
#include <truestep/trace/ranks.hpp>
#include <truestep/verify/collectives/check.hpp>
#include <truestep/verify/dense/traces.hpp>
#include <truestep/verify/diagnosis.hpp>
#include <truestep/verify/gasloc/traces.hpp>
#include <truestep/verify/mapl/traces.hpp>
#include <truestep/verify/report.hpp>
#include <truestep/verify/scape/traces.hpp>

#include "outcome.hpp"

struct truestep_verdict {
    bool passed = false;
    std::string text;
    std::string json;
    std::string page{};
};

namespace truestep::abi {

namespace {

/// The system of the trace, by the algorithm that it names.
verify::Traces traces_of(const std::filesystem::path& path) {
    const std::string algorithm = trace::algorithm_of(path);
    std::string known;
    for (const verify::Traces& traces : {verify::scape::scape_traces(), verify::gasloc::traces(),
                                         verify::mapl::traces(), verify::dense::traces()}) {
        if (std::ranges::find(traces.algorithms, algorithm) != traces.algorithms.end())
            return traces;
        for (const std::string& name : traces.algorithms)
            known += (known.empty() ? "" : ", ") + name;
    }
    throw Error(path.string() + ": a trace of the algorithm '" + one_line(algorithm) +
                "', which no system here knows; there are " + known);
}

truestep_verdict verify(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const verify::Traces traces = traces_of(path);
    const verify::TraceVerdict verdict = traces.verify(path, options);
    const std::vector<std::string> fits = what_may_be_wrong(traces, verdict, options);
    nlohmann::ordered_json json = json_report(verdict);
    nlohmann::ordered_json page = json_page(verdict);
    json["fits"] = page["fits"] = fits;
    return {verdict.status == verify::Status::passed,
            text_report(verdict) + verify::text_of_diagnosis(fits) + std::string(name(verdict.status)) +
                "  " + path.string() + "\n",
            json.dump(), page.dump()};
}

verify::VerifyOptions options_of(const char* level, const char* from) {
    verify::VerifyOptions options;
    if (level != nullptr)
        options.level = verify::parse_trace_level(level);
    if (from != nullptr)
        options.from = verify::parse_from(from);
    return options;
}

/// The common name of a run's files.
std::filesystem::path run_of(const char* const* paths, std::size_t count) {
    need(paths, "paths");
    std::vector<std::filesystem::path> files;
    for (std::size_t i = 0; i < count; ++i)
        files.emplace_back(&need(paths[i], "a path"));
    return trace::run_of(files);
}

} // namespace

extern "C" {

truestep_status truestep_verify(const char* path, const char* level, const char* from,
                                truestep_verdict** verdict) {
    return guarded([&] {
        need(path, "path");
        need(verdict, "verdict");
        const auto options = options_of(level, from);
        *verdict = new truestep_verdict(verify(path, options));
    });
}

truestep_status truestep_verify_ranks(const char* const* paths, size_t count, const char* level,
                                      const char* from, truestep_verdict** verdict) {
    return guarded([&] {
        need(verdict, "verdict");
        const auto options = options_of(level, from);
        *verdict = new truestep_verdict(verify(run_of(paths, count), options));
    });
}

truestep_status truestep_check_collectives(const char* const* paths, size_t count,
                                           truestep_verdict** verdict) {
    return guarded([&] {
        need(verdict, "verdict");
        need(paths, "paths");
        std::vector<std::string> files;
        for (size_t i = 0; i < count; ++i)
            files.emplace_back(&need(paths[i], "a path"));
        const verify::collectives::Verdict checked =
            verify::collectives::check(verify::collectives::read_run(files));
        *verdict = new truestep_verdict{checked.holds(), text_report(checked), json_report(checked).dump()};
    });
}

truestep_status truestep_add_summary(const char* file, const char* runs) {
    return guarded([&] {
        if (need(file, "file") == '\0')
            throw Error("file is empty; give the name of a file");
        const auto parsed = nlohmann::ordered_json::parse(&need(runs, "runs"), nullptr, false);
        if (!parsed.is_object() || !parsed.contains("traces") || !parsed["traces"].is_array())
            throw Error("runs is no JSON with the list \"traces\"; give the pages of verdicts in it");
        report::add_runs_summary(file, parsed);
        std::fflush(stdout); // annotations, before the caller writes
    });
}

truestep_status truestep_join(const char* const* paths, size_t count, const char* output) {
    return guarded([&] {
        need(output, "output");
        trace::join(run_of(paths, count), output);
    });
}

void truestep_verdict_destroy(truestep_verdict* verdict) {
    delete verdict;
}

int32_t truestep_verdict_passed(const truestep_verdict* verdict) {
    return verdict != nullptr && verdict->passed ? 1 : 0;
}

const char* truestep_verdict_text(const truestep_verdict* verdict) {
    return verdict == nullptr ? "" : verdict->text.c_str();
}

const char* truestep_verdict_json(const truestep_verdict* verdict) {
    return verdict == nullptr ? "" : verdict->json.c_str();
}

const char* truestep_verdict_page(const truestep_verdict* verdict) {
    return verdict == nullptr ? "" : verdict->page.c_str();
}

} // extern "C"

} // namespace truestep::abi

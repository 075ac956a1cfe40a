#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <scape/gasloc/traces.hpp>
#include <scape/mapl/traces.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/report/status.hpp>
#include <scape/trace/bundle.hpp>
#include <scape/trace/ranks.hpp>
#include <scape/verify/diagnosis.hpp>
#include <scape/verify/report.hpp>
#include <scape/verify/scape_traces.hpp>

#include "outcome.hpp"

struct scape_verdict {
    bool passed = false;
    std::string text;
    std::string json;
};

namespace scape::abi {

namespace {

/// Whose trace it is, by the algorithm that it names.
verify::Traces traces_of(const std::filesystem::path& path) {
    const std::string algorithm = trace::algorithm_of(path);
    std::string known;
    for (const verify::Traces& traces : {verify::scape_traces(), gasloc::traces(), mapl::traces()}) {
        if (std::ranges::find(traces.algorithms, algorithm) != traces.algorithms.end())
            return traces;
        for (const std::string& name : traces.algorithms)
            known += (known.empty() ? "" : ", ") + name;
    }
    throw Error(path.string() + ": a trace of the algorithm '" + one_line(algorithm) +
                "', which is of no system here; there are " + known);
}

scape_verdict verify(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const verify::Traces traces = traces_of(path);
    const verify::TraceVerdict verdict = traces.verify(path, options);
    const std::vector<std::string> fits = what_may_be_wrong(traces, verdict, options);
    nlohmann::ordered_json json = json_report(verdict);
    json["fits"] = fits;
    return {verdict.status == verify::Status::passed,
            text_report(verdict) + verify::text_of_diagnosis(fits) + std::string(name(verdict.status)) +
                "  " + path.string() + "\n",
            json.dump()};
}

verify::VerifyOptions options_of(const char* level, const char* from) {
    verify::VerifyOptions options;
    if (level != nullptr)
        options.level = verify::parse_trace_level(level);
    if (from != nullptr)
        options.from = verify::parse_from(from);
    return options;
}

/// The name under which they are one run.
std::filesystem::path run_of(const char* const* paths, std::size_t count) {
    need(paths, "paths");
    std::vector<std::filesystem::path> files;
    for (std::size_t i = 0; i < count; ++i) {
        need(paths[i], "a path");
        files.emplace_back(paths[i]);
    }
    return trace::run_of(files);
}

} // namespace
} // namespace scape::abi

using scape::abi::guarded;
using scape::abi::need;

scape_status scape_verify(const char* path, const char* level, const char* from, scape_verdict** verdict) {
    return guarded([&] {
        need(path, "path");
        need(verdict, "verdict");
        const auto options = scape::abi::options_of(level, from);
        *verdict = std::make_unique<scape_verdict>(scape::abi::verify(path, options)).release();
    });
}

scape_status scape_verify_ranks(const char* const* paths, size_t count, const char* level, const char* from,
                                scape_verdict** verdict) {
    return guarded([&] {
        need(verdict, "verdict");
        const auto options = scape::abi::options_of(level, from);
        const std::filesystem::path run = scape::abi::run_of(paths, count);
        *verdict = std::make_unique<scape_verdict>(scape::abi::verify(run, options)).release();
    });
}

scape_status scape_join(const char* const* paths, size_t count, const char* output) {
    return guarded([&] {
        need(output, "output");
        scape::trace::join(scape::abi::run_of(paths, count), output);
    });
}

void scape_verdict_destroy(scape_verdict* verdict) {
    delete verdict;
}

int32_t scape_verdict_passed(const scape_verdict* verdict) {
    return verdict != nullptr && verdict->passed ? 1 : 0;
}

const char* scape_verdict_text(const scape_verdict* verdict) {
    return verdict == nullptr ? "" : verdict->text.c_str();
}

const char* scape_verdict_json(const scape_verdict* verdict) {
    return verdict == nullptr ? "" : verdict->json.c_str();
}

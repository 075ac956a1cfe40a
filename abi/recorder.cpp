#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <scape/problem/error.hpp>
#include <scape/trace/writer.hpp>
#include <scape/verify/trace.hpp>

#include "problem.hpp"
#include "values.hpp"

namespace scape::abi {

namespace {

using problem::Index;
using trace::Kind;

/// One rank's vector of a step: values, or a mask's bytes.
struct Vector {
    std::vector<float> values;
    std::vector<std::uint8_t> bytes;
};

struct Step {
    double learning_rate = 0.0;
    std::map<std::string, std::map<int, Vector>> vectors; ///< by name and rank
};

} // namespace
} // namespace scape::abi

struct scape_recorder {
    scape_problem problem;
    std::string source;
    std::vector<float> parameters;
    std::vector<scape::abi::Step> steps{};
};

namespace scape::abi {

namespace {

trace::Schema schema_of(const scape_recorder& recorder) {
    return verify::schema(recorder.problem.problem,
                          std::max<Index>(1, static_cast<Index>(recorder.steps.size())));
}

Kind kind_of(const scape_recorder& recorder, const std::string& wanted) {
    const trace::Schema schema = schema_of(recorder);
    std::string known;
    std::vector<Kind> kinds = schema.inputs;
    for (const trace::Result& result : schema.results)
        kinds.push_back(result.kind);
    for (const Kind& kind : kinds) {
        if (trace::name(kind) == wanted)
            return kind;
        known += (known.empty() ? "" : ", ") + trace::name(kind);
    }
    throw Error("recorder: '" + wanted + "' is nothing that a trace of this algorithm holds; give one of " +
                known);
}

void add(scape_recorder& recorder, const std::string& name, int rank, std::span<const scape_values> given) {
    const problem::Problem& problem = recorder.problem.problem;
    const std::string what = "recorder: " + name + " of rank " + std::to_string(rank);
    if (recorder.steps.empty())
        throw Error(what + ": no step has begun; call scape_recorder_begin_step first");
    const Kind kind = kind_of(recorder, name);
    const bool one_for_all = kind.intermediate && !kind.per_rank;
    if (rank < 0 || rank >= (one_for_all ? 1 : problem.workers))
        throw Error(what + ": there is no such rank; ranks are 0 to " +
                    std::to_string(one_for_all ? 0 : problem.workers - 1));
    Vector vector;
    if (kind.is_mask) {
        const auto bytes = bits(given.size() == 1 ? given[0] : scape_values{}, problem.layout.size(), what);
        vector.bytes.assign(bytes.begin(), bytes.end());
    } else {
        std::vector<float> room;
        const auto values = floats(given, problem.layout.size(), room, what);
        vector.values.assign(values.begin(), values.end());
    }
    if (!recorder.steps.back().vectors[name].emplace(rank, std::move(vector)).second)
        throw Error(what + ": given twice in step " + std::to_string(recorder.steps.size()) +
                    "; give it once");
}

/// How many ranks' vectors of this kind the steps hold: the same in all of them, or it throws.
std::size_t ranks_of(const scape_recorder& recorder, const Kind& kind) {
    const std::string name = trace::name(kind);
    const auto in_step = [&](std::size_t step) {
        const auto found = recorder.steps[step].vectors.find(name);
        return found == recorder.steps[step].vectors.end() ? std::size_t{0} : found->second.size();
    };
    const std::size_t ranks = in_step(0);
    for (std::size_t step = 1; step < recorder.steps.size(); ++step)
        if (in_step(step) != ranks)
            throw Error("recorder: step " + std::to_string(step + 1) + " has " + name + " of " +
                        std::to_string(in_step(step)) + " ranks, and step 1 of " + std::to_string(ranks) +
                        "; give it in every step or in none");
    const auto workers = static_cast<std::size_t>(recorder.problem.problem.workers);
    const bool may_be_one = !kind.per_rank && std::ranges::all_of(recorder.steps, [&](const auto& step) {
        return step.vectors.contains(name) && step.vectors.at(name).contains(0);
    });
    if (ranks != 0 && ranks != workers && !(ranks == 1 && may_be_one))
        throw Error("recorder: " + name + " is there of " + std::to_string(ranks) + " ranks of " +
                    std::to_string(workers) + "; give every rank's" +
                    (kind.per_rank ? "" : ", or rank 0's alone"));
    return ranks;
}

/// What is not recorded is no part of the trace. Says how the replicas are.
trace::Replicas leave_out_missing(const scape_recorder& recorder, trace::Schema& schema) {
    if (ranks_of(recorder, schema.inputs.front()) == 0)
        throw Error("recorder: no gradient has been given; give every rank's in every step");
    std::erase_if(schema.results,
                  [&](const trace::Result& result) { return ranks_of(recorder, result.kind) == 0; });
    if (schema.results.empty())
        throw Error("recorder: no result has been given, so that there is nothing to verify; give "
                    "parameters at least");
    int once = 0;
    int copies = 0;
    for (const trace::Result& result : schema.results)
        if (is_replicated(result.kind) && recorder.problem.problem.workers > 1)
            (ranks_of(recorder, result.kind) == 1 ? once : copies) += 1;
    if (once > 0 && copies > 0)
        throw Error(
            "recorder: of what is the same on all ranks some is given for every rank and some for rank 0; "
            "give all of it in one way");
    return copies > 0 ? trace::Replicas::copies : trace::Replicas::none;
}

void write_step(trace::Writer& writer, const trace::Schema& schema, const Step& step) {
    writer.begin_step();
    for (const Kind& kind : schema.inputs)
        for (const auto& [rank, vector] : step.vectors.at(trace::name(kind)))
            writer.input(kind, rank, vector.values);
    for (const trace::Result& result : schema.results) {
        const auto& vectors = step.vectors.at(trace::name(result.kind));
        if (result.kind.is_mask)
            writer.result(result.kind,
                          [&](int rank) { return std::span<const std::uint8_t>(vectors.at(rank).bytes); });
        else
            writer.result(result.kind,
                          [&](int rank) { return std::span<const float>(vectors.at(rank).values); });
    }
}

double density_at(const scape_problem& problem, Index step) {
    return problem.problem.algorithm == problem::Algorithm::adams ? 1.0 : problem.settings.density.at(step);
}

void write(const scape_recorder& recorder, const std::filesystem::path& path) {
    if (recorder.steps.empty())
        throw Error("recorder: no step has been recorded; a trace has at least one");
    trace::Schema schema = schema_of(recorder);
    const trace::Replicas replicas = leave_out_missing(recorder, schema);
    std::vector<double> rates;
    std::vector<double> densities{density_at(recorder.problem, 1)};
    for (const Step& step : recorder.steps) {
        rates.push_back(step.learning_rate);
        densities.push_back(density_at(recorder.problem, static_cast<Index>(densities.size()) + 1));
    }
    trace::Writer writer(path, schema, recorder.source, true, replicas);
    writer.series("learning_rate", std::span<const double>(rates));
    writer.series("density", std::span<const double>(densities));
    writer.series("initial/parameters", std::span<const float>(recorder.parameters));
    for (const Step& step : recorder.steps)
        write_step(writer, schema, step);
    writer.finish();
}

} // namespace
} // namespace scape::abi

using scape::abi::guarded;
using scape::abi::need;

scape_status scape_recorder_create(const scape_problem* problem, const char* source,
                                   const scape_values* parameters, size_t count,
                                   scape_recorder** recorder) {
    return guarded([&] {
        need(problem, "problem");
        need(source, "source");
        need(recorder, "recorder");
        std::vector<float> room;
        const auto start = scape::abi::floats(scape::abi::pieces(parameters, count, "parameters"),
                                              problem->problem.layout.size(), room, "parameters");
        *recorder =
            std::make_unique<scape_recorder>(scape_recorder{*problem, source, {start.begin(), start.end()}})
                .release();
    });
}

void scape_recorder_destroy(scape_recorder* recorder) {
    delete recorder;
}

scape_status scape_recorder_begin_step(scape_recorder* recorder, double learning_rate) {
    return guarded([&] {
        need(recorder, "recorder");
        recorder->steps.push_back({learning_rate, {}});
    });
}

scape_status scape_recorder_add(scape_recorder* recorder, const char* name, int32_t rank,
                                const scape_values* values, size_t count) {
    return guarded([&] {
        need(recorder, "recorder");
        need(name, "name");
        scape::abi::add(*recorder, name, rank, scape::abi::pieces(values, count, "values"));
    });
}

scape_status scape_recorder_write(scape_recorder* recorder, const char* path) {
    return guarded([&] {
        need(recorder, "recorder");
        need(path, "path");
        scape::abi::write(*recorder, path);
    });
}

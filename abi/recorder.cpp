#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <scape/problem/error.hpp>
#include <scape/trace/parts.hpp>
#include <scape/trace/ranks.hpp>
#include <scape/verify/trace.hpp>

#include "problem.hpp"
#include "spool.hpp"
#include "values.hpp"

namespace scape::abi {

namespace {

using problem::Index;
using storage::DataType;
using trace::Kind;

struct Step {
    double learning_rate = 0.0;
    std::map<std::string, std::map<int, Spool::Place>> vectors; ///< by name and rank
};

} // namespace
} // namespace scape::abi

struct scape_recorder {
    scape_problem problem;
    std::string source;
    std::vector<float> parameters;
    std::vector<scape::abi::Step> steps{};
    std::optional<int> rank{}; ///< whose file it makes; nothing: of all ranks
    scape::abi::Spool spool{};
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

void check_rank(const scape_recorder& recorder, const Kind& kind, int rank, const std::string& what) {
    if (recorder.rank && rank != *recorder.rank)
        throw Error(what + ": this recorder is of rank " + std::to_string(*recorder.rank) +
                    "; each rank records its own");
    const bool one_for_all = !recorder.rank && kind.intermediate && !kind.per_rank;
    const int ranks = one_for_all ? 1 : recorder.problem.problem.workers;
    if (rank < 0 || rank >= ranks)
        throw Error(what + ": there is no such rank; ranks are 0 to " + std::to_string(ranks - 1));
}

void add(scape_recorder& recorder, const std::string& name, int rank, std::span<const scape_values> given) {
    const Index size = recorder.problem.problem.layout.size();
    const std::string what = "recorder: " + name + " of rank " + std::to_string(rank);
    if (recorder.steps.empty())
        throw Error(what + ": no step has begun; call scape_recorder_begin_step first");
    const Kind kind = kind_of(recorder, name);
    check_rank(recorder, kind, rank, what);
    auto& of_ranks = recorder.steps.back().vectors[name];
    if (of_ranks.contains(rank))
        throw Error(what + ": given twice in step " + std::to_string(recorder.steps.size()) +
                    "; give it once");
    std::vector<float> room;
    const auto bytes = kind.is_mask
                           ? std::as_bytes(bits(given.size() == 1 ? given[0] : scape_values{}, size, what))
                           : std::as_bytes(floats(given, size, room, what));
    of_ranks.emplace(rank, recorder.spool.put(bytes));
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
    if (!recorder.rank && ranks != 0 && ranks != workers && !(ranks == 1 && may_be_one))
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
    if (recorder.rank)
        return trace::Replicas::copies;
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

/// What the trace holds of the steps; the bytes come from the spool when they are written.
void add_steps(const scape_recorder& recorder, const trace::Schema& schema, trace::Replicas replicas,
               std::vector<trace::Part>& parts) {
    std::vector<Kind> kinds = schema.inputs;
    for (const trace::Result& result : schema.results)
        kinds.push_back(result.kind);
    const auto size = static_cast<std::uint64_t>(schema.layout.size());
    for (std::size_t i = 0; i < recorder.steps.size(); ++i)
        for (const Kind& kind : kinds)
            for (const auto& [rank, kept] : recorder.steps[i].vectors.at(trace::name(kind))) {
                const Spool::Place& place = kept; // clang 14 captures no structured binding
                const auto step = static_cast<Index>(i + 1);
                const bool copy = is_replicated(kind) && replicas == trace::Replicas::copies;
                parts.push_back({copy ? copy_name(kind, step, rank) : tensor_name(kind, step, rank),
                                 kind.is_mask ? DataType::u8 : DataType::f32,
                                 {kind.is_mask ? trace::mask_bytes(schema.layout.size()) : size},
                                 [&recorder, &place] { return recorder.spool.get(place); }});
            }
}

template <class Number>
trace::Part part_of(const std::string& name, DataType type, const std::vector<Number>& values) {
    return {name, type, {values.size()}, [&values] {
                const auto bytes = std::as_bytes(std::span(values));
                return std::vector<std::byte>(bytes.begin(), bytes.end());
            }};
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
    std::vector<trace::Part> parts{part_of("learning_rate", DataType::f64, rates),
                                   part_of("density", DataType::f64, densities),
                                   part_of("initial/parameters", DataType::f32, recorder.parameters)};
    add_steps(recorder, schema, replicas, parts);
    trace::write_parts(path, recorder.source,
                       recorder.rank ? trace::with_rank(schema.config, *recorder.rank) : schema.config,
                       std::move(parts));
}

scape_recorder& before_the_first_step(scape_recorder* recorder) {
    need(recorder, "recorder");
    if (!recorder->steps.empty())
        throw Error("recorder: a step has begun already; say this before the first");
    return *recorder;
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
        *recorder = new scape_recorder{*problem, source, {start.begin(), start.end()}};
    });
}

void scape_recorder_destroy(scape_recorder* recorder) {
    delete recorder;
}

scape_status scape_recorder_of_rank(scape_recorder* recorder, int32_t rank) {
    return guarded([&] {
        const int workers = scape::abi::before_the_first_step(recorder).problem.problem.workers;
        if (rank < 0 || rank >= workers)
            throw scape::Error("recorder: there is no rank " + std::to_string(rank) + "; ranks are 0 to " +
                               std::to_string(workers - 1));
        recorder->rank = rank;
    });
}

scape_status scape_recorder_keep_in(scape_recorder* recorder, const char* file) {
    return guarded([&] {
        need(file, "file");
        scape::abi::before_the_first_step(recorder).spool.open(file);
    });
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

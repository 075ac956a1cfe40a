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
#include <scape/problem/sample.hpp>
#include <scape/problem/text.hpp>
#include <scape/trace/parts.hpp>
#include <scape/trace/ranks.hpp>
#include <scape/verify/trace.hpp>

#include "held.hpp"
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
    std::optional<double> norm{}; ///< of the mean gradient, where a sample is clipped
    std::map<std::string, std::map<int, Spool::Place>> vectors; ///< by name and rank
};

} // namespace
} // namespace scape::abi

struct scape_recorder {
    scape_problem problem;
    std::string source;
    std::vector<float> parameters; ///< at the beginning, what is held of them
    std::vector<scape::abi::Step> steps{};
    std::optional<int> rank{}; ///< whose file it makes; nothing: of all ranks
    scape::verify::Extent extent{};
    scape::abi::Step before{}; ///< what it begins with, where steps had been taken
    scape::abi::Spool spool{};

    [[nodiscard]] std::vector<scape::problem::Range> held() const {
        const auto& whole = problem.problem;
        return extent.sample.empty() ? std::vector<scape::problem::Range>{{0, whole.layout.size()}}
                                     : ranges_of(extent.sample, whole);
    }
};

namespace scape::abi {

namespace {

trace::Schema schema_of(const scape_recorder& recorder) {
    return verify::schema(recorder.problem.problem,
                          std::max<Index>(1, static_cast<Index>(recorder.steps.size())), recorder.extent);
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

/// Before the first step: of what a run in its middle begins with.
void check_initial(const scape_recorder& recorder, const std::string& name, const std::string& what) {
    if (recorder.extent.begin == 0)
        throw Error(what + ": no step has begun; call scape_recorder_begin_step first");
    if (name != "first_moment" && name != "residual" && name != "mask")
        throw Error(what +
                    ": before the first step there are first_moment, residual and mask, the state that it "
                    "begins with");
}

void add(scape_recorder& recorder, const std::string& name, int rank, std::span<const scape_values> given) {
    const std::string what = "recorder: " + name + " of rank " + std::to_string(rank);
    if (recorder.steps.empty())
        check_initial(recorder, name, what);
    const Kind kind = kind_of(recorder, name);
    check_rank(recorder, kind, rank, what);
    auto& of_ranks = (recorder.steps.empty() ? recorder.before : recorder.steps.back()).vectors[name];
    if (of_ranks.contains(rank))
        throw Error(what + ": given twice in step " + std::to_string(recorder.steps.size()) +
                    "; give it once");
    of_ranks.emplace(rank, put(recorder.spool, given, recorder.held(),
                               recorder.problem.problem.layout.size(), kind.is_mask, what));
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

std::string initial_name(const std::string& name, int rank) {
    return "initial/" + name + (name == "residual" ? "/rank" + std::to_string(rank) : "");
}

/// The state that a run in its middle begins with. What is the same on all ranks is there once.
void add_initial(const scape_recorder& recorder, const trace::Schema& schema,
                 std::vector<trace::Part>& parts) {
    std::vector<std::string> there;
    for (const auto& [name, of_ranks] : recorder.before.vectors)
        for (const auto& [rank, kept] : of_ranks) {
            const Spool::Place& place = kept;
            const std::string tensor = initial_name(name, rank);
            if (name != "residual" && rank != of_ranks.begin()->first) {
                if (recorder.spool.get(place) != recorder.spool.get(of_ranks.begin()->second))
                    throw Error("recorder: " + name + " of rank " + std::to_string(rank) +
                                " is not what another rank begins with; it is the same on all");
                continue;
            }
            const trace::DataType type = name == "mask" ? DataType::u8 : DataType::f32;
            there.push_back(tensor);
            parts.push_back({tensor, type, {place.size / element_size(type)}, [&recorder, &place] {
                                 return recorder.spool.get(place);
                             }});
        }
    const std::string other_ranks = recorder.rank ? initial_name("residual", *recorder.rank) : "";
    for (const trace::Series& series : schema.series) {
        const bool of_others =
            recorder.rank && series.name.starts_with("initial/residual/") && series.name != other_ranks;
        if (series.name.starts_with("initial/") && series.name != "initial/parameters" && !of_others &&
            std::ranges::find(there, series.name) == there.end())
            throw Error("recorder: it begins after step " + std::to_string(recorder.extent.begin) +
                        ", and " + series.name + " has not been given; add it before the first step");
    }
}

/// Of a sample that is clipped; else nothing.
std::vector<double> norms_of(const scape_recorder& recorder) {
    std::vector<double> norms;
    for (const Step& step : recorder.steps) {
        if (!step.norm)
            throw Error("recorder: step " + std::to_string(norms.size() + 1) +
                        " has no norm, and a sample of a gradient that is clipped does not tell it; call "
                        "scape_recorder_norm in every step");
        norms.push_back(*step.norm);
    }
    return norms;
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
    const Index begin = recorder.extent.begin;
    std::vector<double> densities{density_at(recorder.problem, begin + 1)};
    for (const Step& step : recorder.steps) {
        rates.push_back(step.learning_rate);
        densities.push_back(density_at(recorder.problem, begin + static_cast<Index>(densities.size()) + 1));
    }
    std::vector<double> norms;
    if (verify::needs_norm(recorder.problem.problem, recorder.extent))
        norms = norms_of(recorder);
    std::vector<trace::Part> parts{part_of("learning_rate", DataType::f64, rates),
                                   part_of("density", DataType::f64, densities),
                                   part_of("initial/parameters", DataType::f32, recorder.parameters)};
    if (!norms.empty())
        parts.push_back(part_of("norm", DataType::f64, norms));
    add_initial(recorder, schema, parts);
    add_steps(recorder, schema, replicas, parts);
    trace::write_parts(path, recorder.source,
                       recorder.rank ? trace::with_rank(schema.config, *recorder.rank) : schema.config,
                       std::move(parts));
}

scape_recorder& before_the_first_step(scape_recorder* recorder) {
    need(recorder, "recorder");
    if (!recorder->steps.empty())
        throw Error("recorder: a step has begun already; say this before the first");
    if (!recorder->before.vectors.empty())
        throw Error("recorder: what it begins with has been given already; say this before");
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
        recorder->steps.push_back({learning_rate, {}, {}});
    });
}

scape_status scape_recorder_sample(scape_recorder* recorder, const char* sample) {
    return guarded([&] {
        need(sample, "sample");
        const auto& problem = scape::abi::before_the_first_step(recorder).problem.problem;
        if (!recorder->extent.sample.empty())
            throw scape::Error("recorder: it has a sample already; give one");
        recorder->extent.sample = choose_sample(problem, sample);
        recorder->parameters = scape::abi::cut(recorder->parameters, recorder->held());
    });
}

scape_status scape_recorder_held(const scape_recorder* recorder, int64_t* ranges, size_t room,
                                 size_t* count) {
    return guarded([&] {
        need(recorder, "recorder");
        need(count, "count");
        const auto held = recorder->held();
        *count = held.size();
        for (size_t i = 0; i < std::min(room, held.size()); ++i) {
            need(ranges, "ranges");
            ranges[2 * i] = held[i].begin;
            ranges[2 * i + 1] = held[i].end;
        }
    });
}

scape_status scape_recorder_begin_at(scape_recorder* recorder, int64_t steps_taken) {
    return guarded([&] {
        if (steps_taken < 0)
            throw scape::Error("recorder: " + std::to_string(steps_taken) +
                               " steps had been taken before the first; it is 0 or more");
        scape::abi::before_the_first_step(recorder).extent.begin = steps_taken;
    });
}

scape_status scape_recorder_norm(scape_recorder* recorder, double norm) {
    return guarded([&] {
        need(recorder, "recorder");
        if (recorder->steps.empty())
            throw scape::Error("recorder: no step has begun; call scape_recorder_begin_step first");
        if (!(norm >= 0.0))
            throw scape::Error("recorder: the norm is " + scape::shortest(norm) + "; it is 0 or more");
        recorder->steps.back().norm = norm;
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

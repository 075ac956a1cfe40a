// Writes a recorder's contents as a trace.
#include "recorder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/trace/parts.hpp>
#include <truestep/trace/ranks.hpp>

namespace truestep::abi {

namespace {

using problem::Index;
using storage::DataType;
using trace::Kind;

/// How many ranks' vectors of this kind the steps hold. Throws if the steps differ.
std::size_t ranks_of(const truestep_recorder& recorder, const Kind& kind) {
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
        throw Error("recorder: " + name + " is given for " + std::to_string(ranks) + " ranks of " +
                    std::to_string(workers) + "; give every rank's" +
                    (kind.per_rank ? "" : ", or rank 0's alone"));
    return ranks;
}

/// Leaves unrecorded results out of the schema. Returns how replicas are stored.
trace::Replicas leave_out_missing(const truestep_recorder& recorder, trace::Schema& schema) {
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

/// Adds the tensors of the steps; their bytes are read from the spool when they are written.
void add_steps(const truestep_recorder& recorder, const trace::Schema& schema, trace::Replicas replicas,
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

/// Adds the initial state of a recording from the middle of a run. What is equal on all ranks is
/// stored once.
void add_initial(const truestep_recorder& recorder, const trace::Schema& schema,
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

/// This number of every step.
std::vector<double> numbers_of(const truestep_recorder& recorder,
                               std::optional<double> RecordedStep::*number, const std::string& missing) {
    std::vector<double> numbers;
    for (const RecordedStep& step : recorder.steps) {
        if (!(step.*number))
            throw Error("recorder: step " + std::to_string(numbers.size() + 1) + missing);
        numbers.push_back(*(step.*number));
    }
    return numbers;
}

/// The rates of all parameter groups in each step.
std::vector<double> learning_rates_of(const truestep_recorder& recorder) {
    std::vector<double> rates;
    const Index groups = recorder.problem.problem.layout.param_groups();
    for (std::size_t i = 0; i < recorder.steps.size(); ++i)
        for (Index group = 0; group < groups; ++group) {
            const auto found = recorder.steps[i].learning_rates.find(group);
            if (found == recorder.steps[i].learning_rates.end())
                throw Error("recorder: step " + std::to_string(i + 1) +
                            " has no learning rate of parameter group " + std::to_string(group) +
                            "; call truestep_recorder_learning_rate in every step");
            rates.push_back(found->second);
        }
    return rates;
}

/// The norms, if a sample of a clipped gradient needs them; else nothing.
std::vector<double> norms_of(const truestep_recorder& recorder) {
    if (!verify::scape::needs_norm(recorder.problem.problem, recorder.extent))
        return {};
    return numbers_of(recorder, &RecordedStep::norm,
                      " has no norm, which a clipped sample needs; call truestep_recorder_norm in every "
                      "step");
}

/// The exponents, if they are needed or were given; else nothing.
std::vector<double> exponents_of(const truestep_recorder& recorder) {
    if (verify::scape::needs_exponent(recorder.problem.problem, recorder.extent))
        return numbers_of(recorder, &RecordedStep::exponent,
                          " has no exponent, which a part of a run with payload e5m2 needs; call "
                          "truestep_recorder_exponent in every step");
    if (std::ranges::none_of(recorder.steps,
                             [](const RecordedStep& step) { return step.exponent.has_value(); }))
        return {};
    return numbers_of(
        recorder, &RecordedStep::exponent,
        " has no exponent, and another has one; call truestep_recorder_exponent in every step or in "
        "none");
}

} // namespace

void write(const truestep_recorder& recorder, const std::filesystem::path& path) {
    if (recorder.steps.empty())
        throw Error("recorder: no step has been recorded; a trace has at least one");
    trace::Schema schema = schema_of(recorder);
    const trace::Replicas replicas = leave_out_missing(recorder, schema);
    const std::vector<double> rates = learning_rates_of(recorder);
    const Index begin = recorder.extent.begin;
    std::vector<double> densities{density_at(recorder.problem, begin + 1)};
    for (std::size_t step = 0; step < recorder.steps.size(); ++step)
        densities.push_back(density_at(recorder.problem, begin + static_cast<Index>(densities.size()) + 1));
    const std::vector<double> norms = norms_of(recorder);
    const std::vector<double> exponents = exponents_of(recorder);
    std::vector<trace::Part> parts{part_of("learning_rate", DataType::f64, rates),
                                   part_of("density", DataType::f64, densities),
                                   part_of("initial/parameters", DataType::f32, recorder.parameters)};
    if (!norms.empty())
        parts.push_back(part_of("norm", DataType::f64, norms));
    if (!exponents.empty())
        parts.push_back(part_of("exponent", DataType::f64, exponents));
    add_initial(recorder, schema, parts);
    add_steps(recorder, schema, replicas, parts);
    trace::write_parts(path, recorder.source,
                       recorder.rank ? trace::with_rank(schema.config, *recorder.rank) : schema.config,
                       std::move(parts));
}

trace::Schema schema_of(const truestep_recorder& recorder) {
    return verify::scape::schema(recorder.problem.problem,
                                 std::max<Index>(1, static_cast<Index>(recorder.steps.size())),
                                 recorder.extent);
}

} // namespace truestep::abi

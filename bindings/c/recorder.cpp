// Provides C functions that record a caller's steps of SCAPE or AdamS and write them as a trace.
#include "recorder.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "recorder_extent.hpp"
#include "values.hpp"

namespace truestep::abi {

namespace {

using trace::Kind;

Kind kind_of(const truestep_recorder& recorder, const std::string& wanted) {
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
    throw Error("recorder: '" + wanted + "' is not a result of this algorithm; use one of " + known);
}

void check_rank(const truestep_recorder& recorder, const Kind& kind, int rank, const std::string& what) {
    if (recorder.rank && rank != *recorder.rank)
        throw Error(what + ": this recorder is of rank " + std::to_string(*recorder.rank) +
                    "; each rank records its own");
    const bool one_for_all = !recorder.rank && kind.intermediate && !kind.per_rank;
    const int ranks = one_for_all ? 1 : recorder.problem.problem.workers;
    if (rank < 0 || rank >= ranks)
        throw Error(what + ": there is no such rank; ranks are 0 to " + std::to_string(ranks - 1));
}

/// Allowed before the first step: the state with which a recording from the middle of a run begins.
void check_initial(const truestep_recorder& recorder, const std::string& name, const std::string& what) {
    if (recorder.extent.begin == 0)
        throw Error(what + ": no step has begun; call truestep_recorder_begin_step first");
    if (name != "first_moment" && name != "residual" && name != "mask")
        throw Error(what +
                    ": before the first step there are first_moment, residual and mask, the state that it "
                    "begins with");
}

void add(truestep_recorder& recorder, const std::string& name, int rank,
         std::span<const truestep_values> given) {
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

RecordedStep& step_of(truestep_recorder* recorder) {
    if (need(recorder, "recorder").steps.empty())
        throw Error("recorder: no step has begun; call truestep_recorder_begin_step first");
    return recorder->steps.back();
}

void check_rate(const std::string& what, double rate) {
    if (!(rate >= 0.0 && std::isfinite(rate)))
        throw Error(what + " is " + shortest(rate) + "; it must be finite and 0 or more");
}

truestep_recorder& before_the_first_step(truestep_recorder* recorder) {
    if (!need(recorder, "recorder").steps.empty())
        throw Error("recorder: a step has begun; call this before the first step");
    if (!recorder->before.vectors.empty())
        throw Error("recorder: the initial state is already given; call this before");
    return *recorder;
}

} // namespace

extern "C" {

truestep_status truestep_recorder_create(const truestep_problem* problem, const char* source,
                                         const truestep_values* parameters, size_t count,
                                         truestep_recorder** recorder) {
    return guarded([&] {
        need(problem, "problem");
        need(source, "source");
        need(recorder, "recorder");
        std::vector<float> room;
        const auto start = floats(pieces(parameters, count, "parameters"), problem->problem.layout.size(),
                                  room, "parameters");
        *recorder = new truestep_recorder{*problem, source, {start.begin(), start.end()}};
    });
}

void truestep_recorder_destroy(truestep_recorder* recorder) {
    delete recorder;
}

truestep_status truestep_recorder_of_rank(truestep_recorder* recorder, int32_t rank) {
    return guarded([&] {
        const int workers = before_the_first_step(recorder).problem.problem.workers;
        if (rank < 0 || rank >= workers)
            throw Error("recorder: there is no rank " + std::to_string(rank) + "; ranks are 0 to " +
                        std::to_string(workers - 1));
        recorder->rank = rank;
    });
}

truestep_status truestep_recorder_keep_in(truestep_recorder* recorder, const char* file) {
    return guarded([&] {
        need(file, "file");
        before_the_first_step(recorder).spool.open(file);
    });
}

truestep_status truestep_recorder_begin_step(truestep_recorder* recorder, double learning_rate) {
    return guarded([&] {
        need(recorder, "recorder");
        check_rate("recorder: the learning rate", learning_rate);
        recorder->steps.push_back({.learning_rates = {{0, learning_rate}}});
    });
}

truestep_status truestep_recorder_learning_rate(truestep_recorder* recorder, int64_t param_group,
                                                double learning_rate) {
    return guarded([&] {
        auto& step = step_of(recorder);
        const std::string what =
            "recorder: the learning rate of parameter group " + std::to_string(param_group);
        const auto groups = recorder->problem.problem.layout.param_groups();
        if (param_group < 0 || param_group >= groups)
            throw Error(what + ": the problem has the groups 0 to " + std::to_string(groups - 1));
        check_rate(what, learning_rate);
        if (!step.learning_rates.emplace(param_group, learning_rate).second)
            throw Error(what + ": given twice in step " + std::to_string(recorder->steps.size()) +
                        "; give it once" + (param_group == 0 ? ", in truestep_recorder_begin_step" : ""));
    });
}

truestep_status truestep_recorder_sample(truestep_recorder* recorder, const char* sample) {
    return guarded([&] {
        need(sample, "sample");
        const auto& problem = before_the_first_step(recorder).problem.problem;
        if (!recorder->extent.sample.empty())
            throw Error("recorder: it has a sample already; give one");
        recorder->extent.sample = choose_sample(problem, sample);
        recorder->parameters = cut(recorder->parameters, recorder->held());
    });
}

truestep_status truestep_recorder_held(const truestep_recorder* recorder, int64_t* ranges, size_t room,
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

truestep_status truestep_recorder_begin_at(truestep_recorder* recorder, int64_t steps_taken) {
    return guarded([&] {
        if (steps_taken < 0)
            throw Error("recorder: " + std::to_string(steps_taken) +
                        " steps had been taken before the first; it must be at least 0");
        before_the_first_step(recorder).extent.begin = steps_taken;
    });
}

truestep_status truestep_recorder_norm(truestep_recorder* recorder, double norm) {
    return guarded([&] {
        auto& step = step_of(recorder);
        if (!(norm >= 0.0))
            throw Error("recorder: the norm is " + shortest(norm) + "; it must be at least 0");
        step.norm = norm;
    });
}

truestep_status truestep_recorder_exponent(truestep_recorder* recorder, int32_t exponent) {
    return guarded([&] {
        auto& step = step_of(recorder);
        if (format_of(recorder->problem.problem.settings.payload) != problem::Payload::e5m2)
            throw Error("recorder: an exponent is of a payload of e5m2, and this problem has another");
        if (exponent < -126 || exponent > 127)
            throw Error("recorder: the exponent is " + std::to_string(exponent) + "; it is -126 to 127");
        step.exponent = exponent;
    });
}

truestep_status truestep_recorder_add(truestep_recorder* recorder, const char* name, int32_t rank,
                                      const truestep_values* values, size_t count) {
    return guarded([&] {
        need(recorder, "recorder");
        need(name, "name");
        add(*recorder, name, rank, pieces(values, count, "values"));
    });
}

truestep_status truestep_recorder_write(truestep_recorder* recorder, const char* path) {
    return guarded([&] {
        need(recorder, "recorder");
        need(path, "path");
        write(*recorder, path);
    });
}

} // extern "C"

} // namespace truestep::abi

// Provides C functions that record a caller's GASLoC rounds and write them as a trace.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/trace/writer.hpp>
#include <truestep/verify/gasloc/traces.hpp>

#include "gasloc_problem.hpp"
#include "settings_text.hpp"
#include "values.hpp"

namespace truestep::abi {

namespace {

/// The recorded vectors of a round, one after the other.
struct RecordedRound {
    std::vector<double> learning_rates;
    std::vector<std::vector<std::vector<float>>> gradients;             ///< by rank and inner step
    std::map<std::string, std::map<int, std::vector<float>>> results{}; ///< by name and rank
};

} // namespace
} // namespace truestep::abi

struct truestep_gasloc_recorder {
    truestep_gasloc_problem problem;
    std::string source;
    std::vector<float> parameters;
    std::vector<truestep::abi::RecordedRound> rounds{};
};

namespace truestep::abi {

namespace {

using verify::gasloc::Config;

std::string of_round(std::size_t index) {
    return "recorder: round " + std::to_string(index + 1);
}

/// The inner step whose gradient has this name; 0 if none has.
std::size_t inner_step_of(const std::string& name) {
    constexpr std::string_view prefix = "gradient.";
    return name.starts_with(prefix) ? number<std::size_t>("gradient", name.substr(prefix.size())) : 0;
}

void check_result(const truestep_gasloc_recorder& recorder, const std::string& name) {
    std::string known = "gradient.1, gradient.2";
    for (std::size_t i = 0; i < verify::gasloc::result_count; ++i) {
        const auto which = static_cast<verify::gasloc::Result>(i);
        if (!has(recorder.problem.settings.inner, which))
            continue;
        if (result(which).kind.name == name)
            return;
        known += ", " + std::string(result(which).kind.name);
    }
    throw Error("recorder: '" + name + "' is not a result of these settings; use one of " + known);
}

void add_gradient(RecordedRound& round, std::size_t h, int rank, std::vector<float> values,
                  const std::string& what) {
    auto& of_rank = round.gradients[static_cast<std::size_t>(rank)];
    if (h != of_rank.size() + 1)
        throw Error(what + ": the next one of this rank is gradient." + std::to_string(of_rank.size() + 1) +
                    "; give each inner step's once, in their order");
    of_rank.push_back(std::move(values));
}

void add_vector(truestep_gasloc_recorder& recorder, const std::string& name, int rank,
                std::span<const truestep_values> given) {
    const std::string what = "recorder: " + name + " of rank " + std::to_string(rank);
    if (recorder.rounds.empty())
        throw Error(what + ": no round has begun; call truestep_gasloc_recorder_begin_round first");
    if (rank < 0 || rank >= recorder.problem.workers)
        throw Error(what + ": there is no such rank; ranks are 0 to " +
                    std::to_string(recorder.problem.workers - 1));
    const std::size_t h = inner_step_of(name);
    if (h == 0)
        check_result(recorder, name);
    std::vector<float> room;
    const auto values = floats(given, recorder.problem.layout.size(), room, what);
    std::vector<float> kept(values.begin(), values.end());
    RecordedRound& round = recorder.rounds.back();
    if (h > 0)
        add_gradient(round, h, rank, std::move(kept), what);
    else if (!round.results[name].emplace(rank, std::move(kept)).second)
        throw Error(what + ": given twice in round " + std::to_string(recorder.rounds.size()) +
                    "; give it once");
}

/// There are as many inner steps as gradients.
Config config_of(const truestep_gasloc_recorder& recorder) {
    const truestep_gasloc_problem& problem = recorder.problem;
    Config config{problem.settings, problem.workers, problem.layout, 0, {}};
    for (const RecordedRound& round : recorder.rounds) {
        auto& steps = config.inner_steps.emplace_back();
        for (const auto& gradients : round.gradients)
            steps.push_back(static_cast<problem::gasloc::Index>(gradients.size()));
        const problem::gasloc::Index number = config.rounds();
        config.edges +=
            static_cast<problem::gasloc::Index>(graph_of(config.settings, number, config.workers).size());
        if (static_cast<problem::gasloc::Index>(round.learning_rates.size()) != config.most_steps(number))
            throw Error(of_round(config.inner_steps.size() - 1) + " has " +
                        std::to_string(round.learning_rates.size()) + " learning rates, and at most " +
                        std::to_string(config.most_steps(number)) +
                        " inner steps of a worker; give one for each");
    }
    return config;
}

/// Whether every rank has recorded it in every round. Throws if only some have.
bool is_recorded(const truestep_gasloc_recorder& recorder, const std::string& name) {
    const auto ranks_in = [&](const RecordedRound& round) {
        const auto found = round.results.find(name);
        return found == round.results.end() ? std::size_t{0} : found->second.size();
    };
    const bool wanted = ranks_in(recorder.rounds.front()) > 0;
    const std::size_t ranks = wanted ? static_cast<std::size_t>(recorder.problem.workers) : 0;
    for (std::size_t i = 0; i < recorder.rounds.size(); ++i)
        if (ranks_in(recorder.rounds[i]) != ranks)
            throw Error(of_round(i) + " has " + name + " of " +
                        std::to_string(ranks_in(recorder.rounds[i])) + " ranks; give that of all " +
                        std::to_string(recorder.problem.workers) + " in every round, or in none");
    return wanted;
}

void write_round(trace::Writer& writer, const trace::Schema& schema, const RecordedRound& round) {
    writer.begin_step();
    // Step by step, with all ranks of each.
    for (const trace::Kind& kind : schema.inputs)
        for (std::size_t rank = 0; rank < round.gradients.size(); ++rank)
            if (const auto h = static_cast<std::size_t>(kind.part); h <= round.gradients[rank].size())
                writer.input(kind, static_cast<int>(rank), round.gradients[rank][h - 1]);
    for (const trace::Result& result : schema.results)
        writer.result(result.kind, [&](int rank) {
            return std::span<const float>(round.results.at(trace::name(result.kind)).at(rank));
        });
}

void write_rounds(const truestep_gasloc_recorder& recorder, const std::filesystem::path& path) {
    if (recorder.rounds.empty())
        throw Error("recorder: no round has been recorded; a trace has at least one");
    const Config config = config_of(recorder);
    trace::Schema schema = verify::gasloc::schema(config);
    std::erase_if(schema.results, [&](const trace::Result& result) {
        return !is_recorded(recorder, trace::name(result.kind));
    });
    if (schema.results.empty())
        throw Error("recorder: no result has been given, so that there is nothing to verify; give "
                    "parameters at least");
    std::vector<double> rates;
    for (const RecordedRound& round : recorder.rounds)
        rates.insert(rates.end(), round.learning_rates.begin(), round.learning_rates.end());
    const std::vector<double> edges = edges_series(config);
    trace::Writer writer(path, schema, recorder.source, true, trace::Replicas::none);
    writer.series("initial/parameters", std::span<const float>(recorder.parameters));
    writer.series("learning_rate", std::span<const double>(rates));
    writer.series("edges", std::span<const double>(edges));
    for (const RecordedRound& round : recorder.rounds)
        write_round(writer, schema, round);
    writer.finish();
}

} // namespace
} // namespace truestep::abi

using truestep::abi::guarded;
using truestep::abi::need;

truestep_status truestep_gasloc_recorder_create(const truestep_gasloc_problem* problem, const char* source,
                                                const truestep_values* parameters, size_t count,
                                                truestep_gasloc_recorder** recorder) {
    return guarded([&] {
        need(problem, "problem");
        need(source, "source");
        need(recorder, "recorder");
        std::vector<float> room;
        const auto start = truestep::abi::floats(truestep::abi::pieces(parameters, count, "parameters"),
                                                 problem->layout.size(), room, "parameters");
        *recorder = std::make_unique<truestep_gasloc_recorder>(
                        truestep_gasloc_recorder{*problem, source, {start.begin(), start.end()}})
                        .release();
    });
}

void truestep_gasloc_recorder_destroy(truestep_gasloc_recorder* recorder) {
    delete recorder;
}

truestep_status truestep_gasloc_recorder_begin_round(truestep_gasloc_recorder* recorder,
                                                     const double* learning_rates, size_t count) {
    return guarded([&] {
        need(recorder, "recorder");
        if (count > 0)
            need(learning_rates, "learning_rates");
        const std::span<const double> rates(learning_rates, count);
        std::ranges::for_each(rates, truestep::abi::check_rate);
        recorder->rounds.push_back({{rates.begin(), rates.end()},
                                    std::vector<std::vector<std::vector<float>>>(
                                        static_cast<std::size_t>(recorder->problem.workers))});
    });
}

truestep_status truestep_gasloc_recorder_add(truestep_gasloc_recorder* recorder, const char* name,
                                             int32_t rank, const truestep_values* values, size_t count) {
    return guarded([&] {
        need(recorder, "recorder");
        need(name, "name");
        truestep::abi::add_vector(*recorder, name, rank, truestep::abi::pieces(values, count, "values"));
    });
}

truestep_status truestep_gasloc_recorder_write(truestep_gasloc_recorder* recorder, const char* path) {
    return guarded([&] {
        need(recorder, "recorder");
        need(path, "path");
        truestep::abi::write_rounds(*recorder, path);
    });
}

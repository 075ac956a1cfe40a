// Compares a GASLoC trace round by round with the reference.
#include <truestep/verify/gasloc/traces.hpp>

#include <algorithm>
#include <optional>

#include <truestep/problem/error.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "rounds.hpp"

namespace truestep::verify::gasloc {

namespace {

using verify::count_of;
using verify::Divergence;
using verify::Values;

void check_edges(const Head& head, Index round, verify::VerdictBuilder& builder) {
    ++builder.verdict.rows.front().compared;
    const Graph right = graph_of(head.config.settings, round, head.config.workers);
    const Graph& recorded = head.graphs[static_cast<std::size_t>(round - 1)];
    if (right == recorded)
        return;
    const auto text = [](const Graph& graph, const Graph& without) {
        for (const Edge& edge : graph)
            if (std::find(without.begin(), without.end(), edge) == without.end())
                return std::to_string(edge.a) + "-" + std::to_string(edge.b);
        return std::string();
    };
    const std::string missing = text(right, recorded);
    const std::string odd = text(recorded, right);
    std::string note =
        "the edges are not those of the law " + std::string(name(head.config.settings.law)) + ":";
    if (!missing.empty())
        note += " " + missing + " is missing";
    if (!odd.empty())
        note +=
            std::string(missing.empty() ? "" : ",") + " " + odd + " is not of it, or has another weight";
    builder.add_wrong("graph", "edges", Divergence::all_ranks, note);
}

/// A worker whose model is not finite stops, and so does every worker that needs it.
template <class T>
bool stops(const Rounds<T>& rounds, verify::VerdictBuilder& builder) {
    for (std::size_t worker = 0; worker < rounds.went.size(); ++worker)
        if (rounds.reference.halted(static_cast<int>(worker))) {
            builder.add_wrong("momentum", "parameters", static_cast<int>(worker),
                              "the reference stops here: theta of worker " + std::to_string(worker) +
                                  " is not finite, and there is no further round (section 13.6)");
            return true;
        }
    return false;
}

/// Shows in the recorded parameters how far gossip lets the workers drift apart.
void add_distances(const TraceReader& trace, Index round, std::vector<verify::CurveLine>& lines) {
    std::vector<std::optional<Values<double>>> all;
    Values<double> mean = Values<double>::Zero(trace.schema().layout.size());
    for (int worker = 0; worker < trace.schema().workers; ++worker) {
        const auto recorded = trace.values(result(Result::parameters).kind, round, worker);
        all.push_back(recorded ? std::optional<Values<double>>(verify::to_vector<double>(*recorded))
                               : std::nullopt);
        if (recorded)
            mean += *all.back();
    }
    mean /= trace.schema().workers;
    const bool known = std::ranges::all_of(all, [](const auto& one) { return one.has_value(); });
    lines.resize(all.size());
    for (std::size_t worker = 0; worker < all.size(); ++worker) {
        lines[worker].name = "worker " + std::to_string(worker);
        lines[worker].values.push_back(known ? std::optional((*all[worker] - mean).matrix().norm())
                                             : std::nullopt);
    }
}

template <class T>
void check(const TraceReader& trace, const verify::VerifyOptions& options,
           verify::VerdictBuilder& builder) {
    const Config& config = trace.head().config;
    Rounds<T> rounds(trace.head());
    std::vector<verify::CurveLine> distances;
    for (Index round = 1; round <= config.rounds(); ++round) {
        options.progress(round, config.rounds());
        builder.begin_step(round);
        check_edges(trace.head(), round, builder);
        rounds.take(trace);
        for (const Result which : results_of(config.settings.inner))
            for (int worker = 0; worker < config.workers; ++worker)
                if (const auto recorded = trace.values(result(which).kind, round, worker))
                    builder.add(result(which).kind.name,
                                {worker, verify::compare_with(rounds.value(which, worker), *recorded),
                                 rounds.went[static_cast<std::size_t>(worker)].skipped
                                     ? "a gradient of this worker is not finite: the round is a skipped "
                                       "one (section 13.1)"
                                     : ""});
        if (options.look)
            add_distances(trace, round, distances);
        if (builder.from_recorded())
            rounds.follow(trace);
        if (round < config.rounds() && stops(rounds, builder))
            break;
    }
    if (options.look)
        builder.verdict.seen.curves.push_back(
            {"distance from the mean",
             "How far each worker's parameters are, after the round, from the mean of all "
             "workers' (the norm of the difference).",
             distances});
}

std::string describe(const Config& config) {
    return "gasloc, " + count_of(config.workers, "worker") + ", " + count_of(config.rounds(), "round") +
           ", " + count_of(config.layout.size(), "parameter") + " in " +
           count_of(config.layout.tensors().size(), "tensor") + ", inner " +
           std::string(name(config.settings.inner)) + ", law " + std::string(name(config.settings.law)) +
           ", momentum " + std::string(name(config.settings.momentum));
}

} // namespace

verify::TraceVerdict verify_trace(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const TraceReader trace(path);
    if (options.level.kind == verify::LevelKind::bf16)
        throw Error(
            path.string() +
            ": level BF16 is not available for GASLoC: a round's inner steps are not recorded one by one, "
            "and bf16 rounding grows from one to the next; use --level rel");
    verify::VerdictBuilder builder(trace, options,
                                   {describe(trace.head().config),
                                    "parameters, drifted, gossiped and inner state of every worker",
                                    words});
    builder.add_row("graph", "edges");
    for (const trace::Result& of : trace.schema().results)
        builder.add_row(of.phase, std::string(of.kind.name), true);
    if (options.level.kind == verify::LevelKind::exact)
        check<float>(trace, options, builder);
    else
        check<verify::Bounded>(trace, options, builder);
    return builder.finish(
        "their second moment may be zero, so that no finite bound holds for the division by it");
}

} // namespace truestep::verify::gasloc

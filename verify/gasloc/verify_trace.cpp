#include <truestep/gasloc/traces.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <truestep/gasloc/reference.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/verify/beside.hpp>

namespace truestep::gasloc {

namespace {

using verify::Comparison;
using verify::Divergence;
using verify::From;
using verify::Row;
using verify::to_vector;
using verify::Values;

/// The reference beside one trace. T is float for EXACT, Bounded for REL.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const TraceReader& trace, From from, bool look)
        : trace_(trace), head_(trace.head()), from_(from),
          reference_(head_.config.settings, head_.config.workers, to_vector<T>(head_.initial_parameters)) {
        rows_.push_back({"graph", "edges"});
        for (std::size_t i = 0; i < result_count; ++i) {
            const trace::Result& of = result(static_cast<Result>(i));
            rows_.push_back({of.phase, std::string(of.kind.name)});
            if (look && has(head_.config.settings.inner, static_cast<Result>(i)))
                maps_.emplace(i, verify::DifferenceMap(of.phase, rows_.back().result, head_.config.rounds(),
                                                       head_.config.layout));
        }
        if (look)
            apart_.resize(static_cast<std::size_t>(head_.config.workers));
    }

    void check(const std::function<void(Index, Index)>& progress) {
        for (round_ = 1; round_ <= head_.config.rounds(); ++round_) {
            progress(round_, head_.config.rounds());
            check_edges();
            const auto went =
                reference_.round(gradients(), head_.learning_rates_of(round_),
                                 graph_of(head_.config.settings, round_, head_.config.workers));
            for (std::size_t i = 0; i < result_count; ++i)
                for (int worker = 0; worker < head_.config.workers; ++worker)
                    compare(static_cast<Result>(i), worker, went[static_cast<std::size_t>(worker)]);
            see();
            follow();
            if (stops())
                return;
        }
    }

    [[nodiscard]] std::vector<Row> rows() const {
        std::vector<Row> rows;
        for (std::size_t i = 0; i < rows_.size(); ++i)
            if (i == 0 || has(head_.config.settings.inner, static_cast<Result>(i - 1)))
                rows.push_back(rows_[i]);
        return rows;
    }
    [[nodiscard]] const std::optional<Divergence>& first() const { return first_; }
    [[nodiscard]] verify::Seen seen() const {
        verify::Seen all;
        for (const auto& [result, map] : maps_)
            all.maps.push_back(map);
        if (!apart_.empty())
            all.curves.push_back(
                {"distance from the mean",
                 "How far each worker's parameters are, after the round, from the mean of all "
                 "workers' (the norm of the difference).",
                 apart_});
        return all;
    }

  private:
    void check_edges() {
        ++rows_.front().compared;
        const Graph right = graph_of(head_.config.settings, round_, head_.config.workers);
        const Graph& recorded = head_.graphs[static_cast<std::size_t>(round_ - 1)];
        if (right == recorded)
            return;
        ++rows_.front().mismatched;
        const auto text = [](const Graph& graph, const Graph& without) {
            for (const Edge& edge : graph)
                if (std::find(without.begin(), without.end(), edge) == without.end())
                    return std::to_string(edge.a) + "-" + std::to_string(edge.b);
            return std::string();
        };
        const std::string missing = text(right, recorded);
        const std::string odd = text(recorded, right);
        std::string note =
            "the edges are not those of the law " + std::string(name(head_.config.settings.law)) + ":";
        if (!missing.empty())
            note += " " + missing + " is missing";
        if (!odd.empty())
            note += std::string(missing.empty() ? "" : ",") + " " + odd +
                    " is not of it, or has another weight";
        add({round_, "graph", "edges", Divergence::all_ranks, std::nullopt, {}, note});
    }

    [[nodiscard]] std::vector<Gradients<T>> gradients() const {
        std::vector<Gradients<T>> all(static_cast<std::size_t>(head_.config.workers));
        for (int worker = 0; worker < head_.config.workers; ++worker)
            for (Index h = 1; h <= head_.config.steps(worker, round_); ++h)
                all[static_cast<std::size_t>(worker)].push_back(
                    to_vector<T>(trace_.input(gradient_kind(h), round_, worker)));
        return all;
    }

    [[nodiscard]] const Vector<T>& expected(Result which, int worker, const WorkerRound<T>& went) const {
        const WorkerState<T>& state = reference_.state[static_cast<std::size_t>(worker)];
        switch (which) {
        case Result::inner:
            return went.x;
        case Result::drifted:
            return went.y;
        case Result::gossiped:
            return went.z;
        case Result::first_moment:
            return state.m;
        case Result::second_moment:
            return state.v;
        case Result::parameters:
            break;
        }
        return state.theta;
    }

    void compare(Result which, int worker, const WorkerRound<T>& went) {
        if (!has(head_.config.settings.inner, which))
            return;
        const auto recorded = trace_.values(result(which).kind, round_, worker);
        if (!recorded)
            return;
        const Comparison comparison = verify::compare_with(expected(which, worker, went), *recorded);
        if (const auto map = maps_.find(static_cast<std::size_t>(which)); map != maps_.end())
            map->second.add(round_, comparison);
        Row& row = rows_[1 + static_cast<std::size_t>(which)];
        row.compared += comparison.compared;
        row.mismatched += comparison.mismatched;
        row.unbounded += comparison.unbounded;
        row.nonzero += comparison.nonzero;
        row.eligible += comparison.compared;
        row.greatest_ulps = std::max(row.greatest_ulps, comparison.greatest_ulps);
        row.share_of_limit = std::max(row.share_of_limit, comparison.share_of_limit);
        if (comparison.ok())
            return;
        Divergence divergence{round_,
                              row.phase,
                              row.result,
                              worker,
                              std::nullopt,
                              comparison,
                              went.skipped
                                  ? "a gradient of this worker is not finite: the round is a skipped "
                                    "one (section 13.1)"
                                  : ""};
        if (!comparison.first.empty())
            divergence.index = comparison.first.front().index;
        add(std::move(divergence));
    }

    /// The recorded parameters: they say how far gossip lets the workers part.
    void see() {
        if (apart_.empty())
            return;
        std::vector<std::optional<Values<double>>> all;
        Values<double> mean = Values<double>::Zero(head_.config.layout.size());
        for (int worker = 0; worker < head_.config.workers; ++worker) {
            const auto recorded = trace_.values(result(Result::parameters).kind, round_, worker);
            all.push_back(recorded ? std::optional<Values<double>>(to_vector<double>(*recorded))
                                   : std::nullopt);
            if (recorded)
                mean += *all.back();
        }
        mean /= head_.config.workers;
        const bool known = std::ranges::all_of(all, [](const auto& one) { return one.has_value(); });
        for (std::size_t worker = 0; worker < all.size(); ++worker) {
            apart_[worker].name = "worker " + std::to_string(worker);
            apart_[worker].values.push_back(known ? std::optional((*all[worker] - mean).matrix().norm())
                                                  : std::nullopt);
        }
    }

    void add(Divergence divergence) {
        if (!first_)
            first_ = std::move(divergence);
    }

    /// The state that the next round begins with: the recorded one, or the reference's own.
    void follow() {
        if (from_ != From::recorded)
            return;
        const auto recorded = [this](Result which, int worker) {
            return to_vector<T>(trace_.values(result(which).kind, round_, worker).value());
        };
        const Inner inner = head_.config.settings.inner;
        for (int worker = 0; worker < head_.config.workers; ++worker) {
            WorkerState<T>& state = reference_.state[static_cast<std::size_t>(worker)];
            state.theta = recorded(Result::parameters, worker);
            state.before = recorded(head_.config.settings.momentum == Momentum::local ? Result::drifted
                                                                                      : Result::gossiped,
                                    worker);
            if (has(inner, Result::first_moment))
                state.m = recorded(Result::first_moment, worker);
            if (has(inner, Result::second_moment))
                state.v = recorded(Result::second_moment, worker);
        }
    }

    /// A worker whose model is not finite takes no further part, and neither does who needs it.
    bool stops() {
        if (round_ == head_.config.rounds())
            return false;
        for (int worker = 0; worker < head_.config.workers; ++worker)
            if (reference_.halted(worker)) {
                add({round_,
                     "momentum",
                     "parameters",
                     worker,
                     std::nullopt,
                     {},
                     "the reference stops here: theta of worker " + std::to_string(worker) +
                         " is not finite, and there is no further round (section 13.6)"});
                ++rows_.front().mismatched;
                return true;
            }
        return false;
    }

    const TraceReader& trace_;
    const Head& head_;
    From from_;
    Reference<T> reference_;
    Index round_ = 0;
    std::vector<Row> rows_;
    std::optional<Divergence> first_;
    std::map<std::size_t, verify::DifferenceMap> maps_; ///< where somebody wants to look
    std::vector<verify::CurveLine> apart_;              ///< the same
};

std::string count_of(Index count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string describe(const Config& config) {
    return "gasloc, " + count_of(config.workers, "worker") + ", " + count_of(config.rounds(), "round") +
           ", " + count_of(config.layout.size(), "parameter") + " in " +
           count_of(static_cast<Index>(config.layout.tensors().size()), "tensor") + ", inner " +
           std::string(name(config.settings.inner)) + ", law " + std::string(name(config.settings.law)) +
           ", momentum " + std::string(name(config.settings.momentum));
}

template <class T>
void run_check(const TraceReader& trace, const verify::VerifyOptions& options,
               verify::TraceVerdict& verdict) {
    TraceCheck<T> check(trace, verdict.from, options.look);
    check.check(options.progress);
    verdict.rows = check.rows();
    verdict.first = check.first();
    verdict.seen = check.seen();
    verdict.status = verify::overall(verdict.rows, verdict.first.has_value());
}

} // namespace

verify::TraceVerdict verify_trace(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const TraceReader trace(path);
    if (options.level.kind == verify::LevelKind::bf16)
        throw Error(
            path.string() +
            ": level BF16 cannot be had of GASLoC: a round's inner steps are not recorded one by one, "
            "and what bf16 rounds grows from one to the next; use --level rel");
    const bool states = trace.states_recorded();
    if (options.from == From::recorded && !states)
        throw Error(path.string() +
                    ": --from recorded cannot be had: not every round holds parameters, drifted, gossiped "
                    "and inner state of every worker; use --from start");
    const Config& config = trace.head().config;
    verify::TraceVerdict verdict{path.string(),
                                 trace.source(),
                                 describe(config),
                                 config.layout,
                                 config.rounds(),
                                 options.level,
                                 options.from.value_or(states ? From::recorded : From::start),
                                 {},
                                 {},
                                 std::nullopt,
                                 verify::Status::untested,
                                 {}};
    verdict.words = words;
    if (options.level.kind == verify::LevelKind::exact)
        run_check<float>(trace, options, verdict);
    else
        run_check<verify::Bounded>(trace, options, verdict);
    verify::add_notes(
        verdict, trace,
        "their second moment may be zero, so that no finite bound holds for the division by it");
    return verdict;
}

} // namespace truestep::gasloc

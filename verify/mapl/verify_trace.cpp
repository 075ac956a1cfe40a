#include <truestep/mapl/traces.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include <truestep/mapl/judgement.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/beside.hpp>

#include "codewords.hpp"
#include "head.hpp"

namespace truestep::mapl {

namespace {

using verify::Comparison;
using verify::Divergence;
using verify::From;
using verify::Row;

bool finite(const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// The reference beside one trace. T is float for EXACT, Bounded for REL.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const trace::Reader& trace, const Head& head, From from)
        : trace_(trace), head_(head), config_(head.config), settings_(head.config.settings), from_(from),
          a_(head.a), m_(head.m) {
        rows_.push_back({"manifold", "distance"});
        const auto add_rows = [&](std::initializer_list<std::pair<const char*, const char*>> all) {
            for (const auto& [result, phase] : all)
                rows_.push_back({phase, result});
        };
        if (quantizes(settings_)) {
            codewords_.emplace(settings_, head.codebooks, head.learned, config_.before,
                               from == From::start);
            add_rows({{"indices", "encode"},
                      {"codewords", "learn"},
                      {"L", "learn"},
                      {"Z", "decode"},
                      {"C", "codebooks"},
                      {"C_receiver", "codebooks"}});
        } else {
            add_rows({{"Z", "compress"}});
        }
        add_rows({{"Xhat", "decompress"}, {"dZ", "compress_gradient"}, {"dX", "decompress_gradient"}});
        for (const trace::Result& result : trace.schema().results)
            rows_.push_back({result.phase, std::string(result.kind.name)});
        if (config_.trains_anchors())
            for (const char* result : {"dE_sender", "dE_receiver"})
                rows_.push_back({"gradient", result});
        if (settings_.anchors == Anchors::fixed)
            rows_.push_back({"anchors", "E_sender"});
        for (const trace::Series& series : trace.schema().series)
            held_.insert(series.name);
    }

    void check(const std::function<void(Index, Index)>& progress) {
        for (step_ = 1; step_ <= config_.steps; ++step_) {
            progress(step_, config_.steps);
            const Boundary<T> boundary = sides();
            anchors_stay();
            Gradients<T> gradients = boundary.no_gradients();
            through(boundary, gradients);
            if (codewords_)
                codewords_->end_step(step_of_trace());
            sums(gradients);
            const double rate = head_.rates[static_cast<std::size_t>(step_ - 1)];
            const double before = distance_to_manifold(a_, settings_.rank);
            train(gradients.of_basis(), rate);
            stays_on_the_manifold(rate, before);
        }
    }

    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
    [[nodiscard]] const std::optional<Divergence>& first() const { return first_; }

  private:
    [[nodiscard]] std::vector<float> input(const char* name, Index micro = 0) const {
        return trace_.series_f32(of_step(step_, micro == 0 ? name : of_micro(name, micro)));
    }

    [[nodiscard]] Boundary<T> sides() const {
        Boundary<T> made;
        made.A = rows_of<T>(a_, settings_.rank);
        made.trains_anchors = config_.trains_anchors();
        made.payload = settings_.payload;
        if (settings_.anchors == Anchors::none)
            return made;
        made.p = {rows_of<T>(input("E_sender"), settings_.rank),
                  rows_of<T>(head_.rows[0], settings_.width)};
        made.q = made.p;
        if (settings_.anchors == Anchors::two)
            made.q = {rows_of<T>(input("E_receiver"), settings_.rank),
                      rows_of<T>(head_.rows[1], settings_.width)};
        return made;
    }

    /// A fixed table is the step's before, to the bit at every level.
    void anchors_stay() {
        if (settings_.anchors != Anchors::fixed)
            return;
        std::vector<float> now = input("E_sender");
        if (step_ > 1)
            add("E_sender", 0, verify::compare(table_, now, verify::Level::exact()), "");
        table_ = std::move(now);
    }

    [[nodiscard]] Ids ids_of(Index micro) const {
        const auto begin = head_.ids.begin() + ((step_ - 1) * config_.micro + micro - 1) * config_.tokens;
        return {begin, begin + config_.tokens};
    }

    [[nodiscard]] StepOfTrace step_of_trace() {
        return {[this](const char* name, Index micro) { return values(name, micro); },
                [this](const char* name, Index micro, Comparison comparison, const std::string& note) {
                    add(name, micro, std::move(comparison), note);
                }};
    }

    Forward<T> forward(const Boundary<T>& boundary, Index micro) {
        const Matrix<T> X = rows_of<T>(input("X", micro), settings_.width);
        if (!codewords_) {
            Forward<T> made = boundary.forward(X, ids_of(micro));
            compare("Z", micro, made.Z);
            return made;
        }
        Forward<T> made{ids_of(micro), boundary.less_anchor(X, ids_of(micro)), {}, {}};
        try {
            made.Z = codewords_->through(times(made.Q, boundary.A), micro, step_of_trace());
        } catch (const Error& error) {
            throw Error(trace_.path().string() + ": " + of_step(step_, error.what()));
        }
        made.Xhat = boundary.decompressed(made.Z, made.ids);
        return made;
    }

    /// All micro-batches forward, then back.
    void through(const Boundary<T>& boundary, Gradients<T>& gradients) {
        std::vector<Forward<T>> went;
        for (Index micro = 1; micro <= config_.micro; ++micro) {
            went.push_back(forward(boundary, micro));
            compare("Xhat", micro, went.back().Xhat);
        }
        for (Index i = 1; i <= config_.micro; ++i) {
            const Index micro = config_.ascending ? i : config_.micro + 1 - i;
            const Backward<T> back =
                boundary.backward(rows_of<T>(input("G", micro), settings_.width),
                                  went[static_cast<std::size_t>(micro - 1)], gradients);
            compare("dZ", micro, back.dZ);
            compare("dX", micro, back.dX);
        }
    }

    void sums(const Gradients<T>& gradients) {
        compare("gradient_sender", 0, gradients.sender);
        compare("gradient_receiver", 0, gradients.receiver);
        compare("gradient", 0, gradients.of_basis());
        if (!config_.trains_anchors())
            return;
        const bool shared = settings_.anchors == Anchors::shared;
        compare("dE_sender", 0, shared ? gradients.of_anchors() : gradients.dEp);
        compare("dE_receiver", 0, shared ? gradients.of_anchors() : gradients.dEq);
    }

    void train(const Matrix<T>& gradient, double rate) {
        const Matrix<T> A = rows_of<T>(a_, settings_.rank);
        const auto recorded_m = values("m", 0);
        const auto recorded_a = values("A", 0);
        if constexpr (std::is_same_v<T, float>) {
            const SpelStep<float> made =
                spel(settings_, A, rows_of<float>(m_, settings_.rank), gradient, rate);
            const bool steps = made.m.allFinite() && made.A.allFinite();
            compare("m", 0, steps ? made.m : rows_of<float>(m_, settings_.rank));
            compare("A", 0, steps ? made.A : A);
            compare("A_receiver", 0, steps ? made.A : A);
            follow(steps ? std::optional(made) : std::nullopt, recorded_a, recorded_m);
        } else {
            // From the recorded gradient, judged before: its bounds, projected, would hide a wrong m.
            const auto recorded_g = values("gradient", 0);
            const Matrix<T> m = moment(settings_, A, rows_of<T>(m_, settings_.rank),
                                       recorded_g ? rows_of<T>(*recorded_g, settings_.rank) : gradient);
            if ((recorded_g && !finite(*recorded_g)) ||
                (may_overflow(m) && recorded_m == m_ && recorded_a == a_)) {
                stays("m", m_);
                stays("A", a_);
            } else {
                compare("m", 0, m);
                judge({"A", "A_receiver"}, recorded_m, rate);
            }
            same_on_both_sides(recorded_a);
            follow(std::nullopt, recorded_a, recorded_m);
        }
    }

    /// A step that is refused, as its sums overflow: section 22.
    void stays(const char* name, const std::vector<float>& before) {
        if (const auto recorded = values(name, 0))
            add(name, 0, verify::compare(before, *recorded, verify::Level::exact()),
                "its gradient is not finite, and so it has to stay as it was");
    }

    /// The state that the next step begins with: the recorded one, or the reference's own.
    void follow(const std::optional<SpelStep<float>>& made, const std::optional<std::vector<float>>& a,
                const std::optional<std::vector<float>>& m) {
        if (from_ == From::recorded) {
            a_ = a.value();
            m_ = m.value();
        } else if (made) {
            a_.assign(made->A.data(), made->A.data() + made->A.size());
            m_.assign(made->m.data(), made->m.data() + made->m.size());
        }
    }

    /// A as a matrix, from the recorded A before the step and the recorded m.
    void judge(std::initializer_list<const char*> names, const std::optional<std::vector<float>>& m,
               double rate) {
        if (!m || !finite(*m))
            return;
        const Judgement next = next_subspace(settings_, a_, *m, rate);
        for (const char* name : names)
            if (const auto actual = values(name, 0)) {
                const auto [off, limit] = next.greatest(rows_of<double>(*actual, settings_.rank));
                Comparison comparison;
                comparison.compared = static_cast<Index>(actual->size());
                comparison.nonzero = std::ranges::count_if(*actual, [](float one) { return one != 0.0F; });
                comparison.mismatched = off <= limit ? 0 : comparison.compared;
                comparison.share_of_limit = off / limit;
                add(name, 0, std::move(comparison),
                    off <= limit ? ""
                                 : "as a matrix it is " + shortest(off) +
                                       " off in one direction, and the limit is " + shortest(limit));
            }
    }

    /// Of the recorded A, whatever the reference's is.
    void stays_on_the_manifold(double rate, double before) {
        const auto recorded = values("A", 0);
        if (!recorded)
            return;
        const double limit = manifold_limit(settings_, rate, before);
        const double off = finite(*recorded) ? distance_to_manifold(*recorded, settings_.rank) : HUGE_VAL;
        Comparison comparison;
        comparison.compared = 1;
        comparison.nonzero = 1;
        // The greatest column sum bounds the spectral norm: at most sqrt(r) more.
        const double most = limit * std::sqrt(static_cast<double>(settings_.rank));
        comparison.mismatched = off <= most ? 0 : 1;
        comparison.share_of_limit = off / most;
        add("distance", 0, std::move(comparison),
            "|A^T A - I| is " + shortest(off) + ", and the limit is " + shortest(most));
    }

    void same_on_both_sides(const std::optional<std::vector<float>>& sender) {
        const auto receiver = values("A_receiver", 0);
        if (!sender || !receiver)
            return;
        Comparison comparison = verify::compare(*sender, *receiver, verify::Level::exact());
        if (comparison.ok())
            return;
        add("A_receiver", 0, std::move(comparison), "it has to be the sender's A, bit for bit");
    }

    [[nodiscard]] std::optional<std::vector<float>> values(const char* name, Index micro) const {
        for (const trace::Result& result : trace_.schema().results)
            if (result.kind.name == name)
                return trace_.values(result.kind, step_, 0);
        if (!held_.contains(of_step(step_, micro == 0 ? name : of_micro(name, micro))))
            return std::nullopt;
        return input(name, micro);
    }

    void compare(const char* name, Index micro, const Matrix<T>& expected) {
        if (const auto recorded = values(name, micro))
            add(name, micro, compared(expected, *recorded), "");
    }

    void add(const std::string& name, Index micro, Comparison comparison, const std::string& note) {
        Row& row = *std::ranges::find(rows_, name, &Row::result);
        row.compared += comparison.compared;
        row.mismatched += comparison.mismatched;
        row.unbounded += comparison.unbounded;
        row.nonzero += comparison.nonzero;
        row.eligible += comparison.compared;
        row.greatest_ulps = std::max(row.greatest_ulps, comparison.greatest_ulps);
        row.share_of_limit = std::max(row.share_of_limit, comparison.share_of_limit);
        if (comparison.ok() || first_)
            return;
        first_ = Divergence{step_,
                            row.phase,
                            micro == 0 ? name : of_micro(name, micro),
                            Divergence::all_ranks,
                            std::nullopt,
                            std::move(comparison),
                            note};
        tell_place(name);
    }

    /// What is of A's size has A's layout, and is told by it; the rest by a line.
    void tell_place(const std::string& name) {
        Comparison& comparison = first_->comparison;
        if (comparison.first.empty())
            return;
        const verify::Pair pair = comparison.first.front();
        std::string place;
        if (is_of_codebooks(name)) {
            place = place_in_codebooks(settings_, name, pair.index);
        } else if (name.starts_with("d") || name == "Z" || name == "Xhat" || name == "E_sender") {
            const bool table = name.starts_with("dE") || name == "E_sender";
            const bool narrow = table || name == "Z" || name == "dZ";
            const Index columns = narrow ? settings_.rank : settings_.width;
            place = (table ? "id " : "token ") + std::to_string(pair.index / columns) + ", column " +
                    std::to_string(pair.index % columns);
        } else {
            first_->index = pair.index;
            return;
        }
        first_->note = place + ": expected " + verify::with_bits(pair.expected) + ", got " +
                       verify::with_bits(pair.actual) + "; " + verify::summary(comparison);
        comparison.before.clear();
        comparison.first.clear();
        comparison.last.clear();
        comparison.greatest.reset();
    }

    const trace::Reader& trace_;
    const Head& head_;
    const Config& config_;
    const Settings& settings_;
    From from_;
    Index step_ = 0;
    std::vector<float> a_;
    std::vector<float> m_;
    std::vector<float> table_; ///< of fixed anchors, in the step before
    std::vector<Row> rows_;
    std::set<std::string> held_; ///< of the series
    std::optional<TracedCodewords<T>> codewords_;
    std::optional<Divergence> first_;
};

template <class T>
void run_check(const trace::Reader& trace, const Head& head, const verify::VerifyOptions& options,
               verify::TraceVerdict& verdict) {
    TraceCheck<T> check(trace, head, verdict.from);
    check.check(options.progress);
    verdict.rows = check.rows();
    verdict.first = check.first();
    verdict.status = verify::overall(verdict.rows, verdict.first.has_value());
}

} // namespace

verify::TraceVerdict verify_trace(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const trace::Reader trace(path, [](const std::string& text, const std::string& what) {
        return schema(parse_config(text, what));
    });
    const Head head = read_head(trace);
    const bool exact = options.level.kind == verify::LevelKind::exact;
    if (options.level.kind == verify::LevelKind::bf16)
        throw Error(path.string() +
                    ": level BF16 is for optimizers that compute in bf16; a payload of bf16 "
                    "is a setting of MAPL's trace, so use --level rel");
    const bool states = trace.states_recorded();
    if (options.from == From::recorded && !states)
        throw Error(path.string() +
                    ": --from recorded cannot be had: not every step holds A and m; use --from start");
    if (!exact && (!states || options.from == From::start))
        throw Error(
            path.string() + ": level REL judges a step's A as a matrix, from the recorded A and m: " +
            (states ? "leave --from start out" : "record both at every step, or use --level exact"));
    verify::TraceVerdict verdict{path.string(),
                                 trace.source(),
                                 describe(head.config),
                                 trace.schema().layout,
                                 head.config.steps,
                                 options.level,
                                 options.from.value_or(states ? From::recorded : From::start),
                                 {},
                                 {},
                                 std::nullopt,
                                 verify::Status::untested,
                                 {}};
    if (exact)
        run_check<float>(trace, head, options, verdict);
    else
        run_check<Bounded>(trace, head, options, verdict);
    verify::add_notes(verdict, trace, "nothing finite bounds their rounding");
    return verdict;
}

} // namespace truestep::mapl

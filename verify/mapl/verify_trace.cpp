// Compares a trace of one MAPL boundary step by step with the reference.
#include <truestep/verify/mapl/traces.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/mapl/judgement.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "codewords.hpp"
#include "head.hpp"
#include "step.hpp"

namespace truestep::verify::mapl {

namespace {

using verify::Comparison;
using verify::Divergence;

bool finite(const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void add_rows(const trace::Reader& trace, const Config& config, verify::VerdictBuilder& builder) {
    const auto add = [&](std::initializer_list<std::pair<const char*, const char*>> all) {
        for (const auto& [result, phase] : all)
            builder.add_row(phase, result);
    };
    add({{"distance", "manifold"}});
    if (quantizes(config.settings))
        add({{"indices", "encode"},
             {"codewords", "learn"},
             {"L", "learn"},
             {"Z", "decode"},
             {"C", "codebooks"},
             {"C_receiver", "codebooks"}});
    else
        add({{"Z", "compress"}});
    add({{"Xhat", "decompress"}, {"dZ", "compress_gradient"}, {"dX", "decompress_gradient"}});
    for (const trace::Result& of : trace.schema().results)
        builder.add_row(of.phase, std::string(of.kind.name));
    if (config.trains_anchors())
        add({{"dE_sender", "gradient"}, {"dE_receiver", "gradient"}});
    if (config.settings.anchors == Anchors::fixed)
        add({{"E_sender", "anchors"}});
}

/// Compares one trace with the reference. T is float for EXACT, Bounded for REL.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const trace::Reader& trace, const Head& head, verify::VerdictBuilder& builder)
        : trace_(trace), head_(head), config_(head.config), settings_(head.config.settings),
          builder_(builder), a_(head.a), m_(head.m) {
        ends_.input = [this](const char* name, Index micro) {
            return rows_of<T>(input(name, micro), settings_.width);
        };
        ends_.ids = [this](Index micro) {
            const auto begin =
                head_.ids.begin() + ((step_ - 1) * config_.micro + micro - 1) * config_.tokens;
            return Ids(begin, begin + config_.tokens);
        };
        ends_.result = [this](const char* name, Index micro, const Matrix<T>& expected) {
            if (const auto recorded = values(name, micro))
                add(name, micro, compared(expected, *recorded), "");
        };
        if (!quantizes(settings_))
            return;
        codewords_.emplace(settings_, head.codebooks, head.learned, config_.before,
                           !builder.from_recorded());
        ends_.coded = [this](const Matrix<T>& Z, Index micro) {
            try {
                return codewords_->through(Z, micro, step_of_trace());
            } catch (const Error& error) {
                throw Error(trace_.path().string() + ": " + of_step(step_, error.what()));
            }
        };
    }

    void check(Index step) {
        step_ = step;
        builder_.begin_step(step);
        const Boundary<T> boundary = sides();
        anchors_stay();
        const Gradients<T> gradients = pass_through(config_, boundary, ends_);
        if (codewords_)
            codewords_->end_step(step_of_trace());
        hand_on(config_, gradients, ends_);
        const double rate = head_.rates[static_cast<std::size_t>(step_ - 1)];
        const double before = distance_to_manifold(a_, settings_.rank);
        train(gradients.of_basis(), rate);
        stays_on_the_manifold(rate, before);
    }

  private:
    [[nodiscard]] std::vector<float> input(const char* name, Index micro = 0) const {
        return trace_.series_f32(of_step(step_, of_micro(name, micro)));
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

    /// A fixed table equals that of the step before, bit for bit at every level.
    void anchors_stay() {
        if (settings_.anchors != Anchors::fixed)
            return;
        std::vector<float> now = input("E_sender");
        if (step_ > 1)
            add("E_sender", 0, verify::compare(table_, now, verify::Level::exact()), "");
        table_ = std::move(now);
    }

    [[nodiscard]] StepOfTrace step_of_trace() {
        return {[this](const char* name, Index micro) { return values(name, micro); },
                [this](const char* name, Index micro, Comparison comparison, const std::string& note) {
                    add(name, micro, std::move(comparison), note);
                }};
    }

    void train(const Matrix<T>& gradient, double rate) {
        const Matrix<T> A = rows_of<T>(a_, settings_.rank);
        const auto recorded_m = values("m", 0);
        const auto recorded_a = values("A", 0);
        if constexpr (std::is_same_v<T, float>) {
            const SpelStep<float> made =
                spel_if_finite(settings_, A, rows_of<float>(m_, settings_.rank), gradient, rate);
            ends_.result("m", 0, made.m);
            ends_.result("A", 0, made.A);
            ends_.result("A_receiver", 0, made.A);
            // Without recorded states the next step begins with the reference's state.
            a_.assign(made.A.data(), made.A.data() + made.A.size());
            m_.assign(made.m.data(), made.m.data() + made.m.size());
        } else {
            // From the recorded gradient, which was judged before: its projected bounds would hide
            // a wrong m.
            const auto recorded_g = values("gradient", 0);
            const Matrix<T> m = moment(settings_, A, rows_of<T>(m_, settings_.rank),
                                       recorded_g ? rows_of<T>(*recorded_g, settings_.rank) : gradient);
            if ((recorded_g && !finite(*recorded_g)) ||
                (may_overflow(m) && recorded_m == m_ && recorded_a == a_)) {
                stays("m", m_);
                stays("A", a_);
            } else {
                ends_.result("m", 0, m);
                judge({"A", "A_receiver"}, recorded_m, rate);
            }
            same_on_both_sides(recorded_a);
        }
        if (builder_.from_recorded()) {
            a_ = recorded_a.value();
            m_ = recorded_m.value();
        }
    }

    /// Checks a step that is refused because its sums overflow (section 22).
    void stays(const char* name, const std::vector<float>& before) {
        if (const auto recorded = values(name, 0))
            add(name, 0, verify::compare(before, *recorded, verify::Level::exact()),
                "must not change, because its gradient is not finite");
    }

    /// Judges A as a matrix, from the recorded A before the step and the recorded m.
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

    /// Checks that the recorded A is on the manifold, independently of the reference's A.
    void stays_on_the_manifold(double rate, double before) {
        const auto recorded = values("A", 0);
        if (!recorded)
            return;
        const double limit = manifold_limit(settings_, rate, before);
        const double off = finite(*recorded) ? distance_to_manifold(*recorded, settings_.rank) : HUGE_VAL;
        Comparison comparison;
        comparison.compared = 1;
        comparison.nonzero = 1;
        // The greatest column sum bounds the spectral norm, and exceeds it by a factor of at most
        // sqrt(r).
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
        for (const trace::Result& of : trace_.schema().results)
            if (of.kind.name == name)
                return trace_.values(of.kind, step_, 0);
        return trace_.holds(of_step(step_, of_micro(name, micro))) ? std::optional(input(name, micro))
                                                                   : std::nullopt;
    }

    void add(const std::string& name, Index micro, Comparison comparison, const std::string& note) {
        if (Divergence* first = builder_.add(name, {Divergence::all_ranks, std::move(comparison), note})) {
            first->result = of_micro(name, micro);
            tell_place(name, *first);
        }
    }

    /// Names the place of a divergence: results of A's size have A's layout, the others get a note.
    void tell_place(const std::string& name, Divergence& first) const {
        Comparison& comparison = first.comparison;
        if (comparison.first.empty())
            return;
        const verify::Pair pair = comparison.first.front();
        std::string place;
        if (is_of_codebooks(name)) {
            place = place_in_codebooks(settings_, name, pair.index);
        } else if (name.starts_with('d') || name == "Z" || name == "Xhat" || name == "E_sender") {
            const bool table = name.starts_with("dE") || name == "E_sender";
            const bool narrow = table || name == "Z" || name == "dZ";
            const Index columns = narrow ? settings_.rank : settings_.width;
            place = (table ? "id " : "token ") + std::to_string(pair.index / columns) + ", column " +
                    std::to_string(pair.index % columns);
        } else {
            return;
        }
        first.note = place + ": expected " + verify::with_bits(pair.expected) + ", got " +
                     verify::with_bits(pair.actual) + "; " + verify::summary(comparison);
        first.index.reset();
        comparison.before.clear();
        comparison.first.clear();
        comparison.last.clear();
        comparison.greatest.reset();
    }

    const trace::Reader& trace_;
    const Head& head_;
    const Config& config_;
    const Settings& settings_;
    verify::VerdictBuilder& builder_;
    StepEnds<T> ends_;
    Index step_ = 0;
    std::vector<float> a_;
    std::vector<float> m_;
    std::vector<float> table_; ///< of fixed anchors, in the step before
    std::optional<TracedCodewords<T>> codewords_;
};

template <class T>
void check(const trace::Reader& trace, const Head& head, const verify::VerifyOptions& options,
           verify::VerdictBuilder& builder) {
    TraceCheck<T> run(trace, head, builder);
    for (Index step = 1; step <= head.config.steps; ++step) {
        options.progress(step, head.config.steps);
        run.check(step);
    }
}

} // namespace

verify::TraceVerdict verify_trace(const std::filesystem::path& path, const verify::VerifyOptions& options) {
    const trace::Reader trace(path, schema_of_config);
    const Head head = read_head(trace);
    const bool exact = options.level.kind == verify::LevelKind::exact;
    if (options.level.kind == verify::LevelKind::bf16)
        throw Error(path.string() +
                    ": level BF16 is for optimizers that compute in bf16; a payload of bf16 "
                    "is a setting of MAPL's trace, so use --level rel");
    verify::VerdictBuilder builder(trace, options, {describe(head.config), "A and m"});
    const bool states = trace.states_recorded();
    if (!exact && !builder.from_recorded())
        throw Error(
            path.string() + ": level REL judges a step's A as a matrix, from the recorded A and m: " +
            (states ? "leave --from start out" : "record both at every step, or use --level exact"));
    add_rows(trace, head.config, builder);
    if (exact)
        check<float>(trace, head, options, builder);
    else
        check<Bounded>(trace, head, options, builder);
    return builder.finish("nothing finite bounds their rounding");
}

} // namespace truestep::verify::mapl

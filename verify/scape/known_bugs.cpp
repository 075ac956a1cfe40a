// Tries known bugs on a trace, in the arithmetic of the levels with bounds.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <truestep/verify/known_bugs.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "step_bugs.hpp"
#include "trace_piece.hpp"

namespace truestep::verify::scape {

namespace {

/// Each known bug is tried on this many values of all ranks; of a larger model, on a piece around
/// the first that differs.
constexpr Index most_values = 1'000'000;

/// Compares the steps of a piece with the reference, each from the recorded state if there is one.
template <class T>
class Trial {
  public:
    Trial(const TraceReader& trace, trace::Window window, Index parted, Index refused)
        : trace_(trace), piece_(trace, window), parted_(parted), refused_(refused),
          run_(piece_.problem(), trace.head().schedule(), to_vector<T>(piece_.initial_parameters())),
          known_bugs_(
              known_bugs_of_a_step<T>(piece_.problem(), trace.head().extent.begin + parted - 1 - refused)),
          known_(known_bugs_, piece_.problem().workers, parted) {}

    [[nodiscard]] std::string line() {
        const bool recorded = trace_.states_recorded();
        const Index last = recorded ? known_.last(trace_.head().steps()) : parted_;
        try {
            for (Index step = recorded ? parted_ - (lacks_mask() ? 1 : 0) : 1; step <= last; ++step) {
                if (recorded)
                    begin_at_recorded(step);
                const RightStep<T> right = take(step);
                if (step >= parted_)
                    compare(step, right);
            }
        } catch (const std::runtime_error&) {
            // A refused step, or the end of a failing run: the steps before it count.
        }
        return known_.line();
    }

  private:
    void begin_at_recorded(Index step) {
        auto state = run_.state();
        state.step = trace_.head().extent.begin + step - 1 - refused_;
        take_recorded<T>(piece_, step, state);
        run_.restore(std::move(state));
    }

    /// If no mask is recorded, the step before makes it.
    [[nodiscard]] bool lacks_mask() const {
        return piece_.problem().algorithm == problem::Algorithm::scape && parted_ > 1 &&
               !piece_.mask(Result::mask, parted_) && !piece_.mask(Result::next_mask, parted_ - 1);
    }

    /// Sets the mask that the step uses, or should use, to the recorded one.
    void give_mask(Index step) {
        auto state = run_.state();
        std::optional<Coordinates> used = piece_.coordinates(Result::mask, step);
        if (!used && step > 1)
            used = piece_.coordinates(Result::next_mask, step - 1);
        if (!used && step == 1 && state.step > 0 && !state.e.empty())
            used = piece_.initial_mask();
        if (used && !state.e.empty()) {
            state.S = std::move(used);
            run_.restore(std::move(state));
        }
    }

    [[nodiscard]] std::optional<typename Run<T>::Norm> norm(Index step) const {
        const TraceHead& head = trace_.head();
        if (!(head.problem.settings.clip_norm > 0.0))
            return std::nullopt;
        if (const auto recorded = head.norm_at(step))
            return norm_as_recorded<T>(*recorded);
        return piece_.whole() ? std::nullopt
                              : std::optional(norm_as_recorded<T>(norm_before_clipping(trace_, step)));
    }

    [[nodiscard]] RightStep<T> take(Index step) {
        const problem::Problem& problem = piece_.problem();
        const TraceHead& head = trace_.head();
        if (const auto E = head.exponent_at(step))
            run_.scale_by(*E);
        give_mask(step);
        RightStep<T> right{problem, head.extent.begin + step - refused_, head.rates(step),
                           gradients_of<T>(piece_, step), run_.state()};
        const auto given = norm(step);
        right.results = run_.step(right.g, right.rates, given);
        const Coordinates& S = right.results.mask;
        right.M = right.results.first_moment(S);
        right.m = right.before.m(S);
        const auto scalars = right.scalars(right.t);
        if (problem.algorithm == problem::Algorithm::adams) {
            right.ghat = reference::scape::mean_in_rank_order(right.g);
            right.c = right.of_each([&](std::size_t rank) {
                return Vector<T>((scalars.b1 * right.m) + (scalars.a1 * right.g[rank]));
            });
            return right;
        }
        right.c = right.results.local;
        right.ghat = right.results.reconstructed(S);
        right.next = piece_.coordinates(Result::next_mask, step);
        if (const double most = problem.settings.clip_norm; most > 0.0) {
            using Norm = typename Run<T>::Norm;
            const Norm of_all =
                given ? *given : reference::scape::norm_in_blocks<Norm>(right.ghat, problem.settings.norm);
            right.ghat = right.ghat * T(min(Norm(most) / (of_all + Norm(1e-6)), Norm(1.0)));
        }
        return right;
    }

    void compare(Index step, const RightStep<T>& right) {
        const StepResults<T>& results = right.results;
        for (std::size_t i = 0; i < known_bugs_.size(); ++i) {
            Made<T> made{results.residual, {results.first_moment}, {results.parameters}};
            known_bugs_[i].make(right, made);
            for (std::size_t rank = 0; rank < results.residual.size(); ++rank)
                if (const auto held =
                        piece_.values(kind_of(Result::residual), step, static_cast<int>(rank)))
                    known_.add(i, step, static_cast<int>(rank), *held, results.residual[rank],
                               made.residual[rank]);
            compare_replicated(i, Result::first_moment, step, results.first_moment, made.first_moment);
            compare_replicated(i, Result::parameters, step, results.parameters, made.parameters);
        }
    }

    void compare_replicated(std::size_t known_bug, Result result, Index step, const Vector<T>& right,
                            const PerRank<T>& made) {
        const auto held = piece_.replicated_values(kind_of(result), step);
        if (held.shared && held.copies.empty())
            known_.add(known_bug, step, KnownMistakes::all_ranks, *held.shared, right, made.front());
        for (std::size_t rank = 0; rank < held.copies.size(); ++rank)
            known_.add(known_bug, step, static_cast<int>(rank), held.copies[rank], right,
                       made[made.size() == 1 ? 0 : rank]);
    }

    const TraceReader& trace_;
    TracePiece piece_;
    Index parted_;
    Index refused_; ///< steps before it, which do not count
    Run<T> run_;
    std::vector<KnownBug<T>> known_bugs_;
    KnownMistakes known_;
};

/// The part of a trace to try: all, or the segments around the first value that differs. Nothing if
/// they are too large.
std::optional<trace::Window> window_of(const TraceReader& trace, Index at) {
    const problem::Problem& problem = trace.head().problem;
    const Index most = most_values / problem.workers;
    if (problem.layout.size() <= most)
        return trace::Window{0, problem.layout.size()};
    const std::vector<trace::Window> pieces = pieces_of(trace, 1);
    const auto found = std::ranges::find_if(pieces, [&](const trace::Window& one) { return at < one.end; });
    const trace::Window& window = found == pieces.end() ? pieces.back() : *found;
    return trace.states_recorded() && window.size() <= most ? std::optional(window) : std::nullopt;
}

} // namespace

std::string known_bug(const TraceVerdict& verdict) {
    const TraceReader trace(verdict.path);
    const auto window = window_of(trace, verdict.first->index.value_or(0));
    const bool unknown_scale =
        problem::format_of(trace.head().problem.settings.payload) == problem::Payload::e5m2 &&
        trace.head().exponent.empty();
    if (!window || unknown_scale)
        return {};
    return verdict.level.kind == LevelKind::bf16
               ? Trial<BoundedBf16>(trace, *window, verdict.first->step, verdict.refused).line()
               : Trial<Bounded>(trace, *window, verdict.first->step, verdict.refused).line();
}

} // namespace truestep::verify::scape

// Compares a trace, or a piece of it, with the reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <truestep/trace/fingerprint.hpp>
#include <truestep/verify/scale_matches.hpp>
#include <truestep/verify/scape/run.hpp>

#include "masks.hpp"
#include "step_findings.hpp"
#include "trace_piece.hpp"

namespace truestep::verify::scape {

/// How many wrong results are multiples of the reference's, at each level.
template <class T>
[[nodiscard]] ScaleMatches values_scaled(int factor, const Values<T>& expected,
                                         const std::vector<float>& actual, const std::vector<bool>& wrong) {
    if constexpr (std::is_same_v<T, float>)
        return scaled_by(factor,
                         std::span<const float>(expected.data(), static_cast<std::size_t>(expected.size())),
                         actual, wrong);
    else
        return scaled_by(factor, centres_of<T>(expected), limits_of<T>(expected), actual, wrong);
}

template <class T>
[[nodiscard]] ScaleMatches steps_scaled(int factor, const Values<T>& before, const Values<T>& expected,
                                        const std::vector<float>& actual, const std::vector<bool>& wrong) {
    return steps_scaled_by(factor, centres_of<T>(before), centres_of<T>(expected), limits_of<T>(expected),
                           actual, wrong);
}

/// In double and in any order: for plots, not for comparisons.
template <class T>
[[nodiscard]] double squares_in_double(const Vector<T>& values) {
    double squares = 0.0;
    for (Index i = 0; i < values.size(); ++i) {
        const auto value = static_cast<double>(values[i]);
        squares += value * value;
    }
    return squares;
}

/// What a piece must know of all pieces before it takes a step.
template <class T>
struct OfAllPieces {
    std::optional<typename Run<T>::Norm> norm; ///< of the mean gradient, if it is clipped
    std::optional<reference::scape::RefusedStep> refused;
};

/// T is float for EXACT, Bounded for REL, BoundedBf16 for BF16.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const TracePiece& trace, ReferenceStart from)
        : trace_(trace), problem_(trace.problem()), from_(from), density_(trace.head().schedule()),
          run_(problem_, density_, to_vector<T>(trace.initial_parameters())) {
        if (trace.head().extent.begin == 0)
            return;
        auto state = run_.state();
        state.step = trace.head().extent.begin;
        take_recorded<T>(trace, 1, state);
        if (problem_.algorithm == problem::Algorithm::scape)
            state.S = trace.initial_mask();
        run_.restore(std::move(state));
        next_was_recorded_ = true; // the recorded initial mask counts like a recorded next_mask
    }

    /// Checks the next step. After one that halts there is no other.
    [[nodiscard]] StepFindings next_step(const OfAllPieces<T>& all = {}) {
        wake();
        ++step_;
        StepFindings found;
        found.refused = all.refused;
        try {
            if (!found.refused)
                check_taken(gradients_of<T>(trace_, step_), rates(step_),
                            all.norm ? all.norm : given_norm(), found);
        } catch (const reference::scape::RefusedStep& refused) {
            if (!trace_.whole())
                throw NotByPieces();
            found.refused = refused;
        } catch (const reference::scape::Halted& halted) {
            if (!trace_.whole())
                throw NotByPieces();
            found.halted = halted.what();
        }
        if (found.refused) {
            judge_unchanged(found);
            follow(trace_.mask(Result::next_mask, step_), false);
        }
        return found;
    }

    /// The mean gradient that the next step will clip, packed on its mask. Throws what that step
    /// will throw.
    [[nodiscard]] Vector<T> next_gradient() {
        wake();
        const Index step = step_ + 1;
        take_recorded_scale(step);
        return run_.mean_gradient(gradients_of<T>(trace_, step), rates(step).of(0),
                                  trace_.coordinates(Result::mask, step));
    }

    /// Frees what can be read again, before the caller turns to other pieces.
    void sleep() {
        if (from_ != ReferenceStart::recorded)
            return;
        auto state = run_.state();
        state.w.resize(0);
        state.m.resize(0);
        state.e.assign(state.e.size(), Vector<T>());
        run_.restore(std::move(state));
        asleep_ = true;
        // A mask that was recorded before its use is binding, so the scores behind it are not
        // needed.
        const auto is_recorded = [this](Index step) {
            return trace_.head().steps() < step || trace_.mask(Result::next_mask, step).has_value();
        };
        if (next_was_recorded_ && is_recorded(step_ + 1))
            local_before_.clear();
    }

  private:
    void wake() {
        if (!std::exchange(asleep_, false))
            return;
        auto state = run_.state();
        take_recorded<T>(trace_, step_ + 1, state);
        run_.restore(std::move(state));
    }

    [[nodiscard]] problem::LearningRates rates(Index step) const { return trace_.head().rates(step); }

    void check_taken(const PerRank<T>& gradients, const problem::LearningRates& rates,
                     const std::optional<typename Run<T>::Norm>& norm, StepFindings& found) {
        take_recorded_scale(step_);
        const auto before = run_.state();
        StepResults<T> results = run_.step(gradients, rates, norm);

        // All other results depend on the mask in use. If the trace used another mask, the difference
        // is reported once. The step is then taken again with the trace's mask, so that the other
        // comparisons of this step mean something.
        const auto used = trace_.mask(Result::mask, step_);
        const PerRank<T>& made_from = before.step == 0 ? results.local : local_before_;
        const bool in_every_bit = before.step > 0 && next_was_recorded_;
        Comparison of_used;
        if (used)
            of_used = compare_mask(results.mask, *used, made_from, before.step + 1, in_every_bit);
        auto of_masks = judge_masks(Result::mask, results.mask, [&](const Bits& actual) {
            return used && actual == *used
                       ? of_used
                       : compare_mask(results.mask, actual, made_from, before.step + 1, in_every_bit);
        });
        if (used && !in_every_bit)
            tell_margin(of_masks, problem_, made_from, results.mask, *used);
        if (used && of_used.greatest && (from_ == ReferenceStart::recorded || of_used.ok()) &&
            before.e.size() > 0) {
            auto again = before;
            again.S = to_coordinates(*used, problem_.layout.size());
            run_.restore(std::move(again));
            results = run_.step(gradients, rates, norm);
        }

        if (problem_.settings.clip_norm > 0.0)
            found.gradient = {squares_in_double(results.reconstructed), trace_.head().norm_at(step_)};
        if (const auto E = trace_.head().exponent_at(step_))
            found.scale = scale_found(*E, results.local, results.mask);

        const auto next = trace_.mask(Result::next_mask, step_);
        Comparison of_next;
        if (next)
            of_next = compare_mask(results.next_mask, *next, results.local, before.step + 2, false);

        for (const ResultKind& kind : result_kinds) {
            if (kind.result == Result::mask)
                add(found, kind, of_masks, 0);
            else if (kind.is_mask) {
                auto of_nexts = judge_masks(kind.result, results.next_mask, [&](const Bits& actual) {
                    return next && actual == *next ? of_next
                                                   : compare_mask(results.next_mask, actual, results.local,
                                                                  before.step + 2, false);
                });
                if (next)
                    tell_margin(of_nexts, problem_, results.local, results.next_mask, *next);
                add(found, kind, std::move(of_nexts), 0);
            } else
                add(found, kind, judge_values(kind, results, &before.w), eligible(kind.result, results));
        }
        const bool looks_back = step_ > 1 && !of_used.ok();
        found.mask_shifts = mask_step_shifts(
            problem_, {used, next, looks_back ? trace_.mask(Result::mask, step_ - 1) : std::nullopt},
            of_used, of_next,
            [&] { return compare_mask(results.next_mask, *used, results.local, before.step + 2, false); });
        count_updates(before.w, results, found);
        if (!trace_.whole() && from_ == ReferenceStart::start && !(of_used.ok() && of_next.ok()))
            throw NotByPieces(); // one wrong piece of a mask decides for all pieces whether to adopt it
        follow(next, of_next.ok());
        local_before_ = std::move(results.local);
    }

    static void count_updates(const Vector<T>& before, const StepResults<T>& results, StepFindings& found) {
        if constexpr (!std::is_same_v<T, float>)
            for (const Index i : results.mask) {
                const T& after = results.parameters[i];
                ++found.updates;
                if (std::abs(after.value() - before[i].value()) <= rel_slack * after.error())
                    ++found.hidden_updates;
            }
    }

    void judge_unchanged(StepFindings& found) {
        const StepResults<T> unchanged = run_.unchanged();
        const Index size = problem_.layout.size();
        for (const ResultKind& kind : result_kinds) {
            const Coordinates& mask = unchanged.mask_of(kind.result);
            add(found, kind,
                !kind.is_mask ? judge_values(kind, unchanged, nullptr)
                              : judge_masks(kind.result, mask,
                                            [&](const Bits& actual) {
                                                return compare_masks(to_bits(mask, size), actual, size);
                                            }),
                0);
        }
    }

    /// If ranks differ, all of their vectors together decide which rank is wrong.
    void add(StepFindings& found, const ResultKind& kind, std::vector<Finding> findings, Index eligible) {
        for (const Finding& finding : findings)
            if (!trace_.whole() && is_replicated(kind) &&
                (finding.between_ranks || finding.rank != Divergence::all_ranks))
                throw NotByPieces();
        for (Finding& finding : findings)
            finding.eligible = finding.eligible.value_or(eligible);
        found.kinds[static_cast<std::size_t>(kind.result)] = std::move(findings);
    }

    template <class Compare>
    std::vector<Finding> judge_masks(Result result, const Coordinates& expected, const Compare& compare) {
        const Index size = problem_.layout.size();
        const auto recorded = trace_.replicated_mask(kind_of(result), step_);
        std::optional<ReferenceFingerprint> fingerprint;
        if constexpr (std::is_same_v<T, float>)
            if (recorded.fingerprints)
                fingerprint = {trace::fingerprint(std::span<const std::uint8_t>(to_bits(expected, size))),
                               !expected.empty()};
        return judge(recorded, size, fingerprint, compare);
    }

    /// Judges every vector of one kind that the trace holds of this step. `before` holds the
    /// parameters before it, if it is taken.
    std::vector<Finding> judge_values(const ResultKind& kind, const StepResults<T>& results,
                                      const Vector<T>* before) {
        const auto compare = [&](const Vector<T>& expected, const std::vector<float>& actual) {
            Comparison comparison = compare_with(expected, actual);
            if (before != nullptr && !comparison.ok())
                comparison.scaled =
                    kind.result == Result::parameters
                        ? steps_scaled<T>(problem_.workers, *before, expected, actual, comparison.wrong)
                        : values_scaled<T>(problem_.workers, expected, actual, comparison.wrong);
            return comparison;
        };
        std::vector<Finding> findings;
        for (int rank = 0; rank < (kind.per_rank ? problem_.workers : 1); ++rank) {
            const Vector<T>* expected = results.values(kind.result, rank);
            if (expected == nullptr)
                continue;
            if (is_replicated(kind)) {
                const auto recorded = trace_.replicated_values(kind, step_);
                std::optional<ReferenceFingerprint> fingerprint;
                if constexpr (std::is_same_v<T, float>)
                    if (recorded.fingerprints)
                        fingerprint = {trace::fingerprint(std::span<const float>(
                                           expected->data(), static_cast<std::size_t>(expected->size()))),
                                       (expected->array() != 0.0F).any()};
                return judge(recorded, problem_.layout.size(), fingerprint,
                             [&](const std::vector<float>& actual) { return compare(*expected, actual); });
            }
            if (const auto actual = trace_.values(kind, step_, rank))
                findings.push_back(
                    {kind.per_rank ? rank : Divergence::all_ranks, compare(*expected, *actual), {}});
        }
        return findings;
    }

    Comparison compare_mask(const Coordinates& expected, const Bits& actual, const PerRank<T>& local,
                            Index t, bool in_every_bit) {
        const Index size = problem_.layout.size();
        const Bits allowed =
            in_every_bit ? Bits{} : tolerable_bits(problem_, local, density_.at(t), actual);
        return compare_masks(to_bits(expected, size), actual, size, allowed);
    }

    /// How many of a vector's values are not zero by rule.
    [[nodiscard]] Index eligible(Result result, const StepResults<T>& results) const {
        const Index size = problem_.layout.size();
        const auto selected = static_cast<Index>(results.mask.size());
        switch (result) {
        case Result::exchanged:
        case Result::reconstructed:
        case Result::first_moment:
            return selected;
        case Result::residual: // with a payload of bf16 something stays where it was sent
            return problem_.settings.payload == problem::Payload::fp32 ? size - selected : size;
        default:
            return size;
        }
    }

    /// Sets the state for the next step: the recorded one, or the reference's own. In both cases a
    /// coming mask is taken from the trace if it is as right as the own one.
    void follow(const std::optional<Bits>& next, bool next_is_right) {
        auto state = run_.state();
        if (from_ == ReferenceStart::recorded)
            take_recorded<T>(trace_, step_ + 1, state);
        next_was_recorded_ = next.has_value();
        if (next && state.S && (from_ == ReferenceStart::recorded || next_is_right))
            state.S = to_coordinates(*next, problem_.layout.size());
        run_.restore(std::move(state));
    }

    /// The recorded norm of a sample, whose own norm is not that of the whole.
    [[nodiscard]] std::optional<typename Run<T>::Norm> given_norm() const {
        const auto norm = trace_.head().norm_at(step_);
        return norm ? std::optional(norm_as_recorded<T>(*norm)) : std::nullopt;
    }

    void take_recorded_scale(Index step) {
        if (const auto E = trace_.head().exponent_at(step))
            run_.scale_by(*E);
    }

    const TracePiece& trace_;
    const problem::Problem& problem_;
    ReferenceStart from_;
    problem::DensitySchedule density_;
    Run<T> run_;
    Index step_ = 0;
    PerRank<T> local_before_;        ///< the c from which the mask in use was made
    bool asleep_ = false;            ///< the state must be read again
    bool next_was_recorded_ = false; ///< then the mask in use must be that one, in every bit
};

} // namespace truestep::verify::scape

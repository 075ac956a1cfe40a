#include <scape/verify/verify_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/verify/replicas.hpp>
#include <scape/verify/run.hpp>

#include "limits.hpp"
#include "margin.hpp"
#include "watch.hpp"

namespace scape::verify {

namespace {

/// The reference beside one trace. T is float for EXACT, Bounded for REL.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const TraceReader& trace, From from, bool look)
        : trace_(trace), head_(trace.head()), from_(from),
          density_(problem::DensitySchedule::recorded(head_.density)),
          run_(head_.problem, density_, to_vector<T>(head_.initial_parameters)) {
        rows_.push_back({std::string(name(Phase::check)), "outcome"});
        for (const ResultKind& kind : result_kinds)
            rows_.push_back(
                {std::string(name(phase_of(kind.result, head_.problem))), std::string(kind.name)});
        if (look)
            watch_.emplace(trace);
    }

    void check(const std::function<void(Index, Index)>& progress) {
        for (step_ = 1; step_ <= head_.steps(); ++step_) {
            progress(step_, head_.steps());
            clip_factor_.reset();
            PerRank<T> gradients;
            for (int rank = 0; rank < head_.problem.workers; ++rank)
                gradients.push_back(to_vector<T>(trace_.gradient(step_, rank)));
            try {
                check_taken(gradients, head_.learning_rate[static_cast<std::size_t>(step_ - 1)]);
            } catch (const reference::RefusedStep& refused) {
                check_refused(refused);
                follow(trace_.mask(kind_of(Result::next_mask), step_), false);
            } catch (const reference::Halted& halted) {
                see_step();
                add_divergence({step_,
                                std::string(name(Phase::update)),
                                "parameters",
                                Divergence::all_ranks,
                                std::nullopt,
                                {},
                                std::string("the reference stops here: ") + halted.what()});
                ++rows_.front().compared;
                ++rows_.front().mismatched;
                return;
            }
            see_step();
            ++rows_.front().compared;
        }
    }

    [[nodiscard]] Seen seen() const { return watch_ ? watch_->seen() : Seen{}; }

    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
    [[nodiscard]] const std::optional<Divergence>& first() const { return first_; }

  private:
    Row& row(const ResultKind& kind) {
        return rows_[1 + static_cast<std::size_t>(&kind - result_kinds.data())];
    }

    void check_taken(const PerRank<T>& gradients, double learning_rate) {
        const auto before = run_.state();
        StepResults<T> results = run_.step(gradients, learning_rate);

        // The mask in use decides all the rest. Where the trace used another, the difference is reported
        // once, and the step is taken again with the trace's, so that what follows is still compared with
        // sense.
        const auto used = trace_.mask(kind_of(Result::mask), step_);
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
            tell_margin(of_masks, head_.problem, made_from, results.mask, *used);
        if (used && of_used.greatest && (from_ == From::recorded || of_used.ok()) && before.e.size() > 0) {
            auto again = before;
            again.S = to_coordinates(*used, head_.problem.layout.size());
            run_.restore(std::move(again));
            results = run_.step(gradients, learning_rate);
        }

        clip_factor_ = watch_ ? clip_factor(head_.problem, results.reconstructed) : std::nullopt;

        const auto next = trace_.mask(kind_of(Result::next_mask), step_);
        Comparison of_next;
        if (next)
            of_next = compare_mask(results.next_mask, *next, results.local, before.step + 2, false);

        for (const ResultKind& kind : result_kinds) {
            if (kind.result == Result::mask)
                add(kind, of_masks, 0);
            else if (kind.is_mask) {
                auto of_nexts = judge_masks(kind.result, results.next_mask, [&](const Bits& actual) {
                    return next && actual == *next ? of_next
                                                   : compare_mask(results.next_mask, actual, results.local,
                                                                  before.step + 2, false);
                });
                if (next)
                    tell_margin(of_nexts, head_.problem, results.local, results.next_mask, *next);
                add(kind, of_nexts, 0);
            } else
                add(kind, judge_values(kind, results), eligible(kind.result, results));
        }
        follow(next, of_next.ok());
        local_before_ = std::move(results.local);
    }

    template <class Compare>
    std::vector<Finding> judge_masks(Result result, const Coordinates& expected, const Compare& compare) {
        const Index size = head_.problem.layout.size();
        const auto recorded = trace_.replicated_mask(kind_of(result), step_);
        std::optional<ReferenceFingerprint> fingerprint;
        if constexpr (std::is_same_v<T, float>)
            if (recorded.fingerprints)
                fingerprint = {trace::fingerprint(std::span<const std::uint8_t>(to_bits(expected, size))),
                               !expected.empty()};
        return judge(recorded, size, fingerprint, compare);
    }

    void see_step() {
        if (watch_)
            watch_->see(step_, clip_factor_);
    }

    void see(const ResultKind& kind, const Finding& finding) {
        if (watch_)
            watch_->see(step_, kind.result, finding);
    }

    /// Every vector of one kind that the trace holds of this step.
    std::vector<Finding> judge_values(const ResultKind& kind, const StepResults<T>& results) {
        std::vector<Finding> findings;
        for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank) {
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
                return judge(
                    recorded, head_.problem.layout.size(), fingerprint,
                    [&](const std::vector<float>& actual) { return compare_with(*expected, actual); });
            }
            if (const auto actual = trace_.values(kind, step_, rank))
                findings.push_back(
                    {kind.per_rank ? rank : Divergence::all_ranks, compare_with(*expected, *actual), {}});
        }
        return findings;
    }

    Comparison compare_mask(const Coordinates& expected, const Bits& actual, const PerRank<T>& local,
                            Index t, bool in_every_bit) {
        const Index size = head_.problem.layout.size();
        const Bits allowed =
            in_every_bit ? Bits{} : tolerable_bits(head_.problem, local, density_.at(t), actual);
        return compare_masks(to_bits(expected, size), actual, size, allowed);
    }

    /// How many of a vector's values are not zero by rule.
    [[nodiscard]] Index eligible(Result result, const StepResults<T>& results) const {
        const Index size = head_.problem.layout.size();
        const auto selected = static_cast<Index>(results.mask.size());
        switch (result) {
        case Result::exchanged:
        case Result::reconstructed:
        case Result::first_moment:
            return selected;
        case Result::residual: // of a payload of bf16 something stays where it was sent
            return head_.problem.settings.payload == problem::Payload::fp32 ? size - selected : size;
        default:
            return size;
        }
    }

    void add(const ResultKind& kind, const std::vector<Finding>& findings, Index eligible_values) {
        Row& into = row(kind);
        for (const Finding& finding : findings) {
            see(kind, finding);
            const Comparison& comparison = finding.comparison;
            into.mismatched += comparison.mismatched;
            // Beside another rank's copy nothing new is compared, and no limit is used up.
            if (!finding.between_ranks) {
                into.compared += comparison.compared;
                into.unbounded += comparison.unbounded;
                into.nonzero += comparison.nonzero;
                into.eligible += finding.eligible.value_or(kind.is_mask ? 0 : eligible_values);
                into.greatest_ulps = std::max(into.greatest_ulps, comparison.greatest_ulps);
                into.share_of_limit = std::max(into.share_of_limit, comparison.share_of_limit);
            }
            if (!comparison.ok())
                add_divergence(divergence(kind, phase_of(kind.result, head_.problem), finding));
        }
    }

    [[nodiscard]] Divergence divergence(const ResultKind& kind, Phase phase, const Finding& finding) const {
        Divergence divergence{step_,
                              std::string(name(phase)),
                              std::string(kind.name),
                              finding.rank,
                              std::nullopt,
                              finding.comparison,
                              finding.note};
        divergence.between_ranks = finding.between_ranks;
        if (!finding.comparison.first.empty())
            divergence.index = finding.comparison.first.front().index;
        if (kind.is_mask && finding.rank == Divergence::all_ranks && divergence.index &&
            *divergence.index < head_.problem.layout.size())
            divergence.rank = owner_of(*divergence.index);
        if (phase == Phase::clip && !finding.between_ranks)
            divergence.note +=
                std::string(divergence.note.empty() ? "" : "; ") +
                "first_moment is M after clipping; record with --phases to tell the exchange "
                "and the reconstruction apart from the clip";
        return divergence;
    }

    [[nodiscard]] int owner_of(Index index) const {
        for (const problem::Segment& segment : head_.problem.segments)
            if (index < segment.end)
                return segment.owner;
        return Divergence::all_ranks;
    }

    void add_divergence(Divergence divergence) {
        if (!first_)
            first_ = std::move(divergence);
    }

    /// A refused step changes nothing: every recorded result must be what it was before.
    void check_refused(const reference::RefusedStep& refused) {
        const StepResults<T> unchanged = run_.unchanged();
        const Index size = head_.problem.layout.size();
        for (const ResultKind& kind : result_kinds) {
            const Coordinates& mask = unchanged.mask_of(kind.result);
            const auto findings = !kind.is_mask
                                      ? judge_values(kind, unchanged)
                                      : judge_masks(kind.result, mask, [&](const Bits& actual) {
                                            return compare_masks(to_bits(mask, size), actual, size);
                                        });
            for (const Finding& finding : findings) {
                see(kind, finding);
                if (finding.comparison.ok())
                    continue;
                // Where the ranks are not alike, the rank that is wrong says more than the one that
                // refused.
                const bool of_a_rank = is_replicated(kind) && finding.rank != Divergence::all_ranks;
                Divergence found = divergence(kind, Phase::check, finding);
                if (!of_a_rank) {
                    found.rank = refused.rank;
                    found.index = refused.index;
                }
                found.note = std::string(refused.what()) + ". The trace shows changed " +
                             std::string(kind.name) +
                             (of_a_rank ? " of rank " + std::to_string(finding.rank) : "") + " after it" +
                             (finding.note.empty() ? "" : "; " + finding.note);
                ++rows_.front().mismatched;
                add_divergence(std::move(found));
                return;
            }
        }
    }

    /// The state that the next step begins with: the recorded one, or the reference's own, with a coming
    /// mask that is as right as its own taken from the trace in both cases.
    void follow(const std::optional<Bits>& next, bool next_is_right) {
        auto state = run_.state();
        if (from_ == From::recorded) {
            state.w = recorded(Result::parameters, 0);
            state.m = recorded(Result::first_moment, 0);
            for (std::size_t rank = 0; rank < state.e.size(); ++rank)
                state.e[rank] = recorded(Result::residual, static_cast<int>(rank));
        }
        next_was_recorded_ = next.has_value();
        if (next && state.S && (from_ == From::recorded || next_is_right))
            state.S = to_coordinates(*next, head_.problem.layout.size());
        run_.restore(std::move(state));
    }

    [[nodiscard]] Vector<T> recorded(Result result, int rank) const {
        return to_vector<T>(trace_.values(kind_of(result), step_, rank).value());
    }

    const TraceReader& trace_;
    const TraceHead& head_;
    From from_;
    problem::DensitySchedule density_;
    Run<T> run_;
    Index step_ = 0;
    PerRank<T> local_before_;        ///< the c that the mask in use was made from
    bool next_was_recorded_ = false; ///< then the mask in use must be that one, in every bit
    std::vector<Row> rows_;
    std::optional<Divergence> first_;
    std::optional<Watch> watch_; ///< where somebody wants to look
    std::optional<double> clip_factor_;
};

std::string count_of(std::size_t count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string describe(const problem::Problem& problem, Index steps) {
    return std::string(name(problem.algorithm)) + ", " +
           count_of(static_cast<std::size_t>(problem.workers), "worker") + ", " +
           count_of(static_cast<std::size_t>(steps), "step") + ", " +
           count_of(static_cast<std::size_t>(problem.layout.size()), "parameter") + " in " +
           count_of(problem.layout.tensors().size(), "tensor") + ", " +
           count_of(problem.segments.size(), "segment") + ", bias correction " +
           std::string(name(problem.settings.bias_correction));
}

void refuse_impossible(const TraceReader& trace, const VerifyOptions& options) {
    const problem::Problem& problem = trace.head().problem;
    if (options.level.kind == LevelKind::exact &&
        problem.settings.decay_order == problem::DecayOrder::together)
        throw Error(
            trace.path().string() +
            ": level EXACT cannot be had: section 5 fixes no arithmetic for decay_order 'together'; use "
            "--level rel");
    if (options.from == From::recorded && !trace.states_recorded())
        throw Error(
            trace.path().string() +
            ": --from recorded cannot be had: not every step holds parameters, first_moment and residual "
            "of every rank; use --from start");
}

template <class T>
void run_check(const TraceReader& trace, const VerifyOptions& options, TraceVerdict& verdict) {
    TraceCheck<T> check(trace, verdict.from, options.look);
    check.check(options.progress);
    verdict.rows = check.rows();
    verdict.first = check.first();
    verdict.seen = check.seen();
    verdict.status = overall(verdict.rows, verdict.first.has_value());
}

} // namespace

TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options) {
    const TraceReader trace(path);
    refuse_impossible(trace, options);
    TraceVerdict verdict{path.string(),
                         trace.head().source,
                         describe(trace.head().problem, trace.head().steps()),
                         trace.head().problem.layout,
                         trace.head().steps(),
                         options.level,
                         options.from.value_or(trace.states_recorded() ? From::recorded : From::start),
                         {},
                         {},
                         std::nullopt,
                         Status::untested,
                         {}};
    if (options.level.kind == LevelKind::exact)
        run_check<float>(trace, options, verdict);
    else
        run_check<Bounded>(trace, options, verdict);
    add_notes(
        verdict, trace,
        "their gradients cancel to within rounding, so that no finite bound holds for the division by "
        "their size");
    return verdict;
}

} // namespace scape::verify

#include <scape/verify/verify_trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/verify/bounded.hpp>
#include <scape/verify/run.hpp>

namespace scape::verify {

namespace {

using Bits = std::vector<std::uint8_t>;

template <class T>
Vector<T> to_vector(const std::vector<float>& values) {
    Vector<T> result(static_cast<Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, float>)
            result[static_cast<Index>(i)] = values[i];
        else
            result[static_cast<Index>(i)] = T(static_cast<double>(values[i]));
    }
    return result;
}

Comparison compare_with(const Vector<float>& expected, const std::vector<float>& actual) {
    return compare({expected.data(), static_cast<std::size_t>(expected.size())}, actual, Level::exact());
}

Comparison compare_with(const Vector<Bounded>& expected, const std::vector<float>& actual) {
    std::vector<double> centres;
    std::vector<double> limits;
    for (Index i = 0; i < expected.size(); ++i) {
        centres.push_back(expected[i].value());
        limits.push_back(rel_slack * expected[i].error());
    }
    return compare(centres, limits, actual);
}

/// At EXACT no bit of a mask may differ.
Bits tolerable_bits(const problem::Problem&, const PerRank<float>&, double, const Bits&) {
    return {};
}

/// At REL the scores c carry an error, and a segment's mask may be any that is a right choice of its k for
/// some scores within that error: none that was left out is for certain greater than one that was taken.
Bits tolerable_bits(const problem::Problem& problem, const PerRank<Bounded>& c, double density,
                    const Bits& recorded) {
    Bits allowed(recorded.size(), 0);
    for (const problem::Segment& segment : problem.segments) {
        if (static_cast<std::size_t>(segment.owner) >= c.size())
            continue;
        const Vector<Bounded>& owner = c[static_cast<std::size_t>(segment.owner)];
        Index count = 0;
        double least_taken = std::numeric_limits<double>::infinity();
        double greatest_left = 0.0;
        for (Index i = segment.begin; i < segment.end; ++i) {
            const double magnitude = std::abs(owner[i].value());
            const double error = rel_slack * owner[i].error();
            if (((recorded[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0) {
                ++count;
                least_taken = std::min(least_taken, magnitude + error);
            } else {
                greatest_left = std::max(greatest_left, magnitude - error);
            }
        }
        if (count == selected_count(segment, density, problem.settings.k_rounding) &&
            greatest_left <= least_taken)
            for (Index i = segment.begin; i < segment.end; ++i) {
                std::uint8_t& byte = allowed[static_cast<std::size_t>(i / 8)];
                byte = static_cast<std::uint8_t>(byte | (1U << static_cast<unsigned>(i % 8)));
            }
    }
    return allowed;
}

/// The reference beside one trace. T is float for EXACT, Bounded for REL.
template <class T>
class TraceCheck {
  public:
    TraceCheck(const TraceReader& trace, From from)
        : trace_(trace), head_(trace.head()), from_(from),
          density_(problem::DensitySchedule::recorded(head_.density)),
          run_(head_.problem, density_, to_vector<T>(head_.initial_parameters)) {
        rows_.push_back({Phase::check, "outcome"});
        for (const ResultKind& kind : result_kinds)
            rows_.push_back({phase_of(kind.result, head_.problem), std::string(kind.name)});
    }

    void check(const std::function<void(Index, Index)>& progress) {
        for (step_ = 1; step_ <= head_.steps(); ++step_) {
            progress(step_, head_.steps());
            PerRank<T> gradients;
            for (int rank = 0; rank < head_.problem.workers; ++rank)
                gradients.push_back(to_vector<T>(trace_.gradient(step_, rank)));
            try {
                check_taken(gradients, head_.learning_rate[static_cast<std::size_t>(step_ - 1)]);
            } catch (const reference::RefusedStep& refused) {
                check_refused(refused);
                follow(trace_.mask(kind_of(Result::next_mask), step_), false);
            } catch (const reference::Halted& halted) {
                add_divergence({step_,
                                Phase::update,
                                "parameters",
                                Divergence::all_ranks,
                                std::nullopt,
                                {},
                                std::string("the reference stops here: ") + halted.what()});
                ++rows_.front().compared;
                ++rows_.front().mismatched;
                return;
            }
            ++rows_.front().compared;
        }
    }

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
        Comparison of_used;
        if (used) {
            of_used = compare_mask(results.mask, *used, before.step == 0 ? results.local : local_before_,
                                   before.step + 1, before.step > 0 && next_was_recorded_);
            if (of_used.greatest && (from_ == From::recorded || of_used.ok()) && before.e.size() > 0) {
                auto again = before;
                again.S = to_coordinates(*used, head_.problem.layout.size());
                run_.restore(std::move(again));
                results = run_.step(gradients, learning_rate);
            }
        }

        const auto next = trace_.mask(kind_of(Result::next_mask), step_);
        Comparison of_next;
        if (next)
            of_next = compare_mask(results.next_mask, *next, results.local, before.step + 2, false);

        for (const ResultKind& kind : result_kinds) {
            if (kind.is_mask) {
                add(kind, Divergence::all_ranks, kind.result == Result::mask ? of_used : of_next, 0);
                continue;
            }
            for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank)
                if (const auto actual = trace_.values(kind, step_, rank))
                    if (const Vector<T>* expected = results.values(kind.result, rank))
                        add(kind, rank, compare_with(*expected, *actual), eligible(kind.result, results));
        }
        follow(next, of_next.ok());
        local_before_ = std::move(results.local);
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
        case Result::residual:
            return size - selected;
        default:
            return size;
        }
    }

    void add(const ResultKind& kind, int rank, const Comparison& comparison, Index eligible_values) {
        Row& into = row(kind);
        into.compared += comparison.compared;
        into.mismatched += comparison.mismatched;
        into.unbounded += comparison.unbounded;
        into.nonzero += comparison.nonzero;
        into.eligible += eligible_values;
        into.greatest_ulps = std::max(into.greatest_ulps, comparison.greatest_ulps);
        into.share_of_limit = std::max(into.share_of_limit, comparison.share_of_limit);
        if (comparison.ok())
            return;
        const Index index = comparison.first.front().index;
        Divergence divergence{step_, into.phase, into.result, kind.per_rank ? rank : Divergence::all_ranks,
                              index, comparison, {}};
        if (kind.is_mask && index < head_.problem.layout.size())
            divergence.rank = owner_of(index);
        if (into.phase == Phase::clip)
            divergence.note =
                "first_moment is M after clipping; record with --phases to tell the exchange and the "
                "reconstruction apart from the clip";
        add_divergence(std::move(divergence));
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
            for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank) {
                Comparison comparison;
                if (kind.is_mask) {
                    if (const auto actual = trace_.mask(kind, step_))
                        comparison =
                            compare_masks(to_bits(unchanged.mask_of(kind.result), size), *actual, size);
                } else if (const Vector<T>* expected = unchanged.values(kind.result, rank)) {
                    if (const auto actual = trace_.values(kind, step_, rank))
                        comparison = compare_with(*expected, *actual);
                }
                if (comparison.ok())
                    continue;
                ++rows_.front().mismatched;
                add_divergence({step_, Phase::check, std::string(kind.name), refused.rank, refused.index,
                                comparison,
                                std::string(refused.what()) + ". The trace shows changed " +
                                    std::string(kind.name) + " after it"});
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
};

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

void add_notes(const TraceReader& trace, TraceVerdict& verdict) {
    if (!trace.unknown().empty())
        verdict.notes.push_back(std::to_string(trace.unknown().size()) +
                                " tensors were not read, such as '" + trace.unknown().front() +
                                "': section 9 does not know them, or not for this algorithm");
    if (!trace.missing().empty())
        verdict.notes.push_back(
            std::to_string(trace.missing().size()) +
            " results are absent that the trace holds for other steps or ranks, such as '" +
            trace.missing().front() + "': they were not compared");
    Index unbounded = 0;
    for (const Row& row : verdict.rows)
        unbounded += row.unbounded;
    if (unbounded > 0)
        verdict.notes.push_back(
            std::to_string(unbounded) +
            " values were not compared: their gradients cancel to within rounding, so that no "
            "finite bound holds for the division by their size");
}

Status overall(const std::vector<Row>& rows, bool diverged) {
    Row all;
    bool proves = true;
    for (const Row& row : rows) {
        // Where hardly any value had a bound, nothing was compared.
        proves = proves && row.unbounded <= row.compared;
        all.mismatched += row.mismatched;
        if (&row == &rows.front())
            continue; // the outcome of a step is no datum
        all.compared += row.compared;
        all.nonzero += row.eligible > 0 ? row.nonzero : 0;
        all.eligible += row.eligible;
    }
    const Status status = diverged ? Status::failed : all.status();
    return status == Status::passed && !proves ? Status::mistrusted : status;
}

template <class T>
void run_check(const TraceReader& trace, const VerifyOptions& options, TraceVerdict& verdict) {
    TraceCheck<T> check(trace, verdict.from);
    check.check(options.progress);
    verdict.rows = check.rows();
    verdict.first = check.first();
    verdict.status = overall(verdict.rows, verdict.first.has_value());
}

} // namespace

Row total(const std::vector<Row>& rows) {
    Row all;
    for (const Row& row : rows) {
        all.compared += row.compared;
        all.mismatched += row.mismatched;
        all.unbounded += row.unbounded;
        all.nonzero += row.nonzero;
        all.eligible += row.eligible;
        all.greatest_ulps = std::max(all.greatest_ulps, row.greatest_ulps);
        all.share_of_limit = std::max(all.share_of_limit, row.share_of_limit);
    }
    return all;
}

std::string name(From from) {
    return from == From::recorded ? "recorded" : "start";
}

From parse_from(const std::string& text) {
    if (text == "recorded")
        return From::recorded;
    if (text == "start")
        return From::start;
    throw Error("--from is '" + text + "'; it must be recorded or start");
}

TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options) {
    const TraceReader trace(path);
    refuse_impossible(trace, options);
    TraceVerdict verdict{path.string(),
                         trace.head().source,
                         trace.head().problem,
                         trace.head().steps(),
                         options.level,
                         options.from.value_or(trace.states_recorded() ? From::recorded : From::start),
                         {},
                         {},
                         std::nullopt,
                         Status::untested};
    if (options.level.kind == LevelKind::exact)
        run_check<float>(trace, options, verdict);
    else
        run_check<Bounded>(trace, options, verdict);
    add_notes(trace, verdict);
    return verdict;
}

} // namespace scape::verify
